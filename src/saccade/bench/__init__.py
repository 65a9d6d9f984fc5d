"""Benchmarks: the sandbox beside its peers, the same work in the same run. Tells figures, promises none."""
