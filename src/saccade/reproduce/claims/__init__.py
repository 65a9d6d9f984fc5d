"""The claims, one file each."""
