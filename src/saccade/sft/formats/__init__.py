"""Readers and writers of the files in which this field keeps training data."""
