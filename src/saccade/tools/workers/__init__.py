"""Typed tools in processes of their own, which can be ended."""
