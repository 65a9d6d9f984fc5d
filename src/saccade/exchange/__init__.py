"""Records in forms of others that are neither training data nor tables."""
