"""What the papers say that reinforcement learning does, tried on a model so small that a laptop trains it."""
