"""Losses of policy optimisation, on tensors (rows, tokens). Imports torch: import these modules late."""
