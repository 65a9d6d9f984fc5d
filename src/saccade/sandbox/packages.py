"""Packages that programs of the papers import, beyond those that every sandbox has: the extra `sandbox`.

A session sees what the interpreter of its sandbox has installed, so a package is there once it is installed there.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

INSTALL: Final = "pip install 'saccade[sandbox]'"


@dataclass(frozen=True, slots=True)
class OfferedPackage:
    """One of them."""

    module: str
    """As programs import it."""
    distribution: str
    """As it is installed."""
    note: str = ""
    """What a session cannot do with it."""

    @property
    def version(self) -> str | None:
        """The installed one; None if it is absent."""
        if find_spec(self.module) is None:
            return None
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return "unknown"


OFFERED: Final = (
    OfferedPackage("scipy", "scipy"),
    OfferedPackage("skimage", "scikit-image"),
    OfferedPackage("sklearn", "scikit-learn", "in one thread and one process, whatever n_jobs says"),
    OfferedPackage("pandas", "pandas"),
    OfferedPackage("shapely", "shapely"),
    OfferedPackage(
        "pytesseract",
        "pytesseract",
        "imports, but its calls are refused: it starts the program tesseract, and a session starts no programs; the "
        "typed tool ocr reads texts (extra ocr)",
    ),
)
