"""Benchmarks: a short card says where a data set comes from and how to read it; a few loaders read all of them."""
