"""Train by reinforcement learning: rollouts, selection, advantages, losses and the run itself."""
