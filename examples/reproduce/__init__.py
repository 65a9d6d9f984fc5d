"""Claims of the papers about reinforcement learning, tried on a model so small that a laptop trains it."""
