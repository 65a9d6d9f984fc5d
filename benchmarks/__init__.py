"""Measurements of Saccade on this machine: `python -m benchmarks NAME`, one file for each thing measured."""
