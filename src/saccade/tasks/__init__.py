"""Where tasks come from: generated worlds, and (beside them) readers of files and benchmarks."""
