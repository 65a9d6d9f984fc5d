"""Synthesis: many episodes of experts or of teachers, kept as a run of trajectories."""
