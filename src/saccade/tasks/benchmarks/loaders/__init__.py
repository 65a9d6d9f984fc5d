"""Loaders: the rows of a data set in its own format, with the fields that cards name."""
