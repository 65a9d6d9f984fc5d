"""Advantages: how much better a rollout, or one of its turns, was than expected; numpy in, numpy out."""
