"""Reinforcement learning: selection, advantages and losses as pure functions, and recipes that name them."""
