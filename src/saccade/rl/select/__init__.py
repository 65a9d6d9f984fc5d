"""Selection: which groups, and which of their rollouts, are trained on."""
