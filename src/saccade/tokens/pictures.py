"""Make the tensors of pictures and videos, in the order of their placeholders, with a cache of decoded ones.

The cache holds pictures and video frames at the size that the model sees, as uint8: up to ten times smaller than their
tensors, which are cheap to make again, bit for bit. Imports torch; import this module late.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from saccade.errors import TrainingError
from saccade.media.video import AtIndices, sample_frames
from saccade.models.base import MediaReader
from saccade.models.families.base import ModelFamily, VideoClip
from saccade.models.pictures import NO_RULES, PictureRules, decoded_picture
from saccade.record.content import ImagePart, VideoPart
from saccade.tokens.segments import PromptPicture


class PicturePreprocessor(Protocol):
    """An encoder or a checkpoint."""

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
        """Keep at most `most_bytes`, least recently used first out. `rules` scale pictures down."""
        self._reader = reader
        self._rules = rules
        self._media = media
        self._most = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[object, tuple[Image.Image, ...]] = OrderedDict()

    def __call__(self, pictures: Sequence[PromptPicture]) -> dict[str, torch.Tensor]:
        """Return arguments of the model's forward pass for `pictures` in this order; empty for none.

        Raises `TrainingError`: a picture does not have as many features as placeholders; `MediaError`: a picture or a
        video cannot be read; `UnavailableError`: PyAV is needed for a video, and not installed.
        """
        if not pictures:
            return {}
        images = [(picture, picture.part) for picture in pictures if isinstance(picture.part, ImagePart)]
        videos = [(picture, picture.part) for picture in pictures if isinstance(picture.part, VideoPart)]
        made = self._made([picture for picture, _ in images], [self._image(part) for _, part in images])
        clips = [(picture.clip, part) for picture, part in videos if picture.clip is not None]
        return made | video_tensors([(clip, self._frames(part, clip)) for clip, part in clips])

    def _made(self, pictures: Sequence[PromptPicture], images: Sequence[Image.Image]) -> dict[str, torch.Tensor]:
        if not images:
            return {}
        family, processor = self._reader.family, self._reader.image_processor
        tensors = processor(images=list(images), return_tensors="pt", **dict(family.picture_options))
        counted = family.features(tensors, self._reader.config)
        for picture, features in zip(pictures, counted, strict=True):
            if features != picture.tokens:
                raise TrainingError(
                    f"the picture {picture.part.sha256[:12]} has {features} features and {picture.tokens} "
                    "placeholders: the stored picture is not of the size that its record says. Put it in again."
                )
        return {name: tensors[name] for name in family.tensor_names}

    def _image(self, part: ImagePart) -> Image.Image:
        return self._keeping(
            part.sha256,
            lambda: (
                self._reader.family.prepared(
                    decoded_picture(part, self._media, self._rules), self._reader.image_processor
                ),
            ),
        )[0]

    def _frames(self, part: VideoPart, clip: VideoClip) -> tuple[Image.Image, ...]:
        """Read the clip's frames."""

        def read() -> tuple[Image.Image, ...]:
            frames = sample_frames(self._media.get_bytes(part.sha256), AtIndices(clip.frames), budget=clip)
            return tuple(frame.image for frame in frames)

        return self._keeping((part.sha256, clip.frames, clip.grid), read)

    def _keeping(self, name: object, read: Callable[[], tuple[Image.Image, ...]]) -> tuple[Image.Image, ...]:
        if name in self._kept:
            self._kept.move_to_end(name)
            return self._kept[name]
        images = self._kept[name] = read()
        self._bytes += _size(images)
        while self._bytes > self._most and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= _size(dropped)
        return images


def video_tensors(clips: Sequence[tuple[VideoClip, Sequence[Image.Image]]]) -> dict[str, torch.Tensor]:
    """Return arguments of the forward pass for clips and their frames, each of the clip's size; empty for none.

    `pixel_values_videos` is float32 (patches, channels · frames of a step · pixels of a patch), steps first, then
    features by rows, then the patches of each; `video_grid_thw` is int64 (clips, 3).
    """
    if not clips:
        return {}
    patches = [_patches(clip, frames) for clip, frames in clips]
    return {
        "pixel_values_videos": torch.from_numpy(np.concatenate(patches)),
        "video_grid_thw": torch.tensor([clip.grid for clip, _ in clips]),
    }


def _patches(clip: VideoClip, frames: Sequence[Image.Image]) -> NDArray[np.float32]:
    rules, (steps, rows, columns) = clip.rules, clip.grid
    mean, std = (np.array(values, np.float32) for values in (rules.image_mean, rules.image_std))
    scaled = np.stack([np.asarray(frame) for frame in frames]).astype(np.float32) * np.float32(rules.rescale_factor)
    pixels: NDArray[np.float32] = (scaled - mean) / std
    side, merged = rules.patch_size, rules.merge_size
    cut = pixels.reshape(steps, -1, rows // merged, merged, side, columns // merged, merged, side, 3)
    # step, row and column of a feature, those of a patch in it, channel, frame, pixel
    patches: NDArray[np.float32] = cut.transpose(0, 2, 5, 3, 6, 8, 1, 4, 7).reshape(steps * rows * columns, -1)
    return patches


def _size(images: Sequence[Image.Image]) -> int:
    return sum(3 * image.width * image.height for image in images)
