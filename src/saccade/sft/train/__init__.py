"""Supervised training of a vision-language model on trajectories, on one machine."""
