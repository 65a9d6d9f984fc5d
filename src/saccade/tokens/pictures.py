"""The tensors of pictures, in the order of their placeholders; what was decoded once is kept, up to a limit.

Kept is the picture at the size that the model sees, in whole bytes: a few times to ten times smaller than its tensors,
which are cheap to make again. Bit for bit the same with and without. Imports torch; import this module late.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from PIL import Image

from saccade.errors import TrainingError
from saccade.models.base import MediaReader
from saccade.models.families.base import ModelFamily
from saccade.models.pictures import NO_RULES, PictureRules, decoded_picture
from saccade.record.content import ImagePart
from saccade.tokens.segments import PromptPicture


class PicturePreprocessor(Protocol):
    """What reads pictures: an encoder, or a checkpoint."""

    @property
    def family(self) -> ModelFamily:
        """How its pictures are written."""

    @property
    def image_processor(self) -> Any:
        """The checkpoint's."""

    @property
    def config(self) -> Any:
        """The checkpoint's configuration."""


class PictureTensors:
    """Reads, prepares and keeps pictures for one checkpoint. One thread at a time."""

    def __init__(
        self, reader: PicturePreprocessor, media: MediaReader, most_bytes: int = 2**30, rules: PictureRules = NO_RULES
    ) -> None:
        """`most_bytes` bounds what is kept; the picture used longest ago goes first. `rules` scale pictures down."""
        self._reader = reader
        self._rules = rules
        self._media = media
        self._most = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, Image.Image] = OrderedDict()

    def __call__(self, pictures: Sequence[PromptPicture]) -> dict[str, torch.Tensor]:
        """Arguments of the model's forward pass for `pictures` in this order; empty for none.

        Raises:
            TrainingError: a picture does not have as many features as placeholders.
            MediaError: a picture cannot be read.
        """
        if not pictures:
            return {}
        family, processor = self._reader.family, self._reader.image_processor
        images = [self._image(picture.part) for picture in pictures]
        tensors = processor(images=images, return_tensors="pt", **dict(family.picture_options))
        counted = family.features(tensors, self._reader.config)
        for picture, features in zip(pictures, counted, strict=True):
            if features != picture.tokens:
                raise TrainingError(
                    f"the picture {picture.part.sha256[:12]} has {features} features and {picture.tokens} "
                    "placeholders: the stored picture is not of the size that its record says. Put it in again."
                )
        return {name: tensors[name] for name in family.tensor_names}

    def _image(self, part: ImagePart) -> Image.Image:
        if part.sha256 in self._kept:
            self._kept.move_to_end(part.sha256)
            return self._kept[part.sha256]
        image = self._reader.family.prepared(
            decoded_picture(part, self._media, self._rules), self._reader.image_processor
        )
        self._kept[part.sha256] = image
        self._bytes += _size(image)
        while self._bytes > self._most and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= _size(dropped)
        return image


def _size(image: Image.Image) -> int:
    return 3 * image.width * image.height
