"""Names that the programs find bound; for linters and type checkers only. A program's text assigns them itself."""

from PIL import Image

image: Image.Image
"""The picture asked about."""
sides: int
"""Sides of the regular polygon to count; 0 for circles."""
colours: tuple[str, str]
"""Names of the two lines' colours, as Pillow knows them."""
form: str
"""How rows and columns are written: a format string of two numbers."""
question: str
"""Question about two circles: `touching` or `overlapping`."""
