"""Typed tools behind HTTP: one process for a laptop, or deployments of Ray Serve; the wire is the same."""
