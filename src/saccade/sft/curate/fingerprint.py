"""Fingerprints that near-duplicate pictures share, and an index that finds them.

A fingerprint is a difference hash of 256 bits (is a cell brighter than its left neighbour, on a 17x16 grid) and the
mean colours of an 8x8 grid, which tell apart pictures with large plain areas. Scaling, recompression and slight changes
of brightness leave both nearly as they were; crops, rotations and mirror images do not, and are not found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import cv2
import numpy as np
from PIL import Image

from saccade.media.decode import decode
from saccade.record.content import ImagePart
from saccade.sft.curate.stage import Media

BITS = 256
_NOISE = 2.0
"""Grey levels by which neighbours must differ, so that noise in plain areas sets no bits."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What near-duplicates have nearly the same of."""

    bits: int
    colours: bytes
    """RGB of 8x8 cells, row by row."""

    def near(self, other: Fingerprint, bits: int, colour: float) -> bool:
        """Whether at most `bits` bits differ, and the mean difference of colours is at most `colour` (of 255)."""
        if (self.bits ^ other.bits).bit_count() > bits:
            return False
        mine, theirs = (np.frombuffer(item.colours, np.uint8).astype(np.int16) for item in (self, other))
        return float(np.abs(mine - theirs).mean()) <= colour


def fingerprint(image: Image.Image) -> Fingerprint:
    """The fingerprint of a picture; alpha is laid on white."""
    pixels = _rgb(image)
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)
    cells = cv2.resize(grey, (17, 16), interpolation=cv2.INTER_AREA)
    brighter = (cells[:, 1:] - cells[:, :-1]) > _NOISE
    colours = cv2.resize(pixels.astype(np.float32), (8, 8), interpolation=cv2.INTER_AREA)
    return Fingerprint(
        bits=int.from_bytes(np.packbits(brighter).tobytes(), "big"),
        colours=colours.round().astype(np.uint8).tobytes(),
    )


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Fingerprints of stored pictures, each picture decoded once."""

    media: Media
    _known: dict[str, Fingerprint] = field(default_factory=dict)

    def of(self, part: ImagePart) -> Fingerprint:
        """The fingerprint of a picture. Raises `MediaError` if it is not there, or cannot be read."""
        if part.sha256 not in self._known:
            self._known[part.sha256] = fingerprint(decode(self.media.get_bytes(part.sha256)))
        return self._known[part.sha256]


@dataclass
class NearIndex:
    """Finds fingerprints that are near: within `bits` bits some band of the bits is the same."""

    bits: int
    colour: float
    _bands: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    _known: list[tuple[Fingerprint, str]] = field(default_factory=list)

    def add(self, print_: Fingerprint, name: str) -> None:
        """Remember a fingerprint under a name."""
        for key in self._keys(print_):
            self._bands[key].append(len(self._known))
        self._known.append((print_, name))

    def near(self, print_: Fingerprint) -> Iterator[str]:
        """Names of those that are near, in the order in which they were added."""
        numbers = {index for key in self._keys(print_) for index in self._bands.get(key, ())}
        for index in sorted(numbers):
            known, name = self._known[index]
            if known.near(print_, self.bits, self.colour):
                yield name

    def _keys(self, print_: Fingerprint) -> Iterator[tuple[int, int]]:
        # Of more bands than bits may differ, one at least does not differ at all.
        bands = self.bits + 1
        for band in range(bands):
            low, high = band * BITS // bands, (band + 1) * BITS // bands
            yield band, (print_.bits >> low) & ((1 << (high - low)) - 1)


def _rgb(image: Image.Image) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    if image.mode == "RGBA":
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return np.asarray(image.convert("RGB"))
