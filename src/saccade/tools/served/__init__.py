"""Typed tools that a server runs, seen from the side that calls them."""
