"""First-party parts that plug in by the entry points that any package may use; the core imports none of them."""
