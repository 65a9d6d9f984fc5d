"""Plane geometry by rules: statements read from text and diagrams, and figures that satisfy them."""
