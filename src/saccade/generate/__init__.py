"""Sampling from a checkpoint in this process: one core for `local:` models and for rollouts."""
