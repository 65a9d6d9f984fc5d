"""Serve typed tools over HTTP."""
