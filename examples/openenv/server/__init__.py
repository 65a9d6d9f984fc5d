"""The server of this package."""
