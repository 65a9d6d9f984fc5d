"""The record: what travels between the parts of Saccade. Frozen models, JSON both ways, media named by sha256."""
