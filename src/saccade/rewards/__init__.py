"""Rewards: pure functions over a group of rollouts that return named parts; see docs/rewards.md."""
