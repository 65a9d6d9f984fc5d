"""Rollouts: groups of episodes played with an engine and a sandbox."""
