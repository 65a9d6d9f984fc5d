"""Clients of models: one interface, many backends."""
