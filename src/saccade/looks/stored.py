"""Pixels of recorded pictures from a media store, for `saccade.looks.regions`."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image

from saccade.errors import MediaError
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart


@dataclass(frozen=True, slots=True)
class StoredPixels:
    """Reads each picture anew."""

    store: MediaStore

    def pixels(self, part: ImagePart) -> Image.Image | None:
        """The picture; None if the store does not hold it or it cannot be decoded."""
        try:
            return self.store.open(part).decode()
        except (MediaError, OSError):
            return None
