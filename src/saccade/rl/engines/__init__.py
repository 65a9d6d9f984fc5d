"""Engines: who samples the tokens of rollouts."""
