"""Isolated Python that keeps its state from call to call and undoes a failed one; see docs/sandbox.md."""
