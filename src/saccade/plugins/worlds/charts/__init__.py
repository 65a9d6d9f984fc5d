"""Draw charts and ask about them."""
