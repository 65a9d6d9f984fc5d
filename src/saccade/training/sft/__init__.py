"""Train on trajectories, and make, filter and convert them."""
