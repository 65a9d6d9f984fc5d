"""Trajectories as token ids, by construction: segments that own their pictures, a loss mask that follows their kind."""
