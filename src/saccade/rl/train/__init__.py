"""Reinforcement learning on one machine: rollouts, rewards, selection, advantages, update."""
