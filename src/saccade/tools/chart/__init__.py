"""Charts read by rules: shapes by colour, text by OCR, axes by a fit, and the three tools over them."""
