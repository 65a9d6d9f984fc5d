"""Families of checkpoints that run and train in this process; one file for all of one kind."""
