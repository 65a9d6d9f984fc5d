"""What the protocols found, as panels: one file for each of them."""
