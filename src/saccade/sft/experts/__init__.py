"""Experts: models made for one task, which know the world's sample and write natural turns in any dialect."""
