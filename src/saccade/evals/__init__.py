"""Evaluation: runs of a model over tasks, graded, summed up, compared and exported."""
