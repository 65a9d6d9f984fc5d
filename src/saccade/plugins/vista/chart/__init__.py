"""Read charts by rules."""
