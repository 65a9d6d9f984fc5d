"""Solve questions of generated worlds by programs, as a baseline."""
