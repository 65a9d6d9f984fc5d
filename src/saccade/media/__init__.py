"""Media: decode untrusted pictures, fit them to pixel budgets, encode them, keep their bytes by content."""
