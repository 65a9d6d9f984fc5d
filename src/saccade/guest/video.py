"""The video reader of programs, with the interface of `decord`: `import decord` gives this module in the jail.

Differences from decord: the first frame is shown at second 0; `seek` is as exact as `seek_accurate`; the context is
ignored (there is no GPU); no bridge to other libraries.
"""

from __future__ import annotations

import io
import operator
import os
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .video_stream import FramePixels, Frames, Timeline, VideoError, open_frames, read_frames

DECORDError = VideoError
CACHE_BYTES = 48 << 20
"""Decoded frames that a reader keeps for when they are asked for again."""


class FrameArray(np.ndarray):
    """Pixels of a frame (height, width, 3) or of several (n, height, width, 3): uint8, RGB."""

    def asnumpy(self) -> NDArray[Any]:
        """Return the same as a plain numpy array."""
        return self.view(np.ndarray)


class Context(NamedTuple):
    """Where decord would decode; here it says nothing."""

    device: str
    device_id: int


def cpu(device_id: int = 0) -> Context:
    """Return the context of a CPU."""
    return Context("cpu", device_id)


def gpu(device_id: int = 0) -> Context:
    """Return the context of a GPU; frames are decoded on the CPU all the same."""
    return Context("gpu", device_id)


class VideoReader:
    """The frames of a video file (path, or binary file object), scaled to `width` and `height` where they are given.

    `v[i]`, `v[a:b:c]` and `v.get_batch(indices)` give `FrameArray`; numbers below 0 count from the end. Frames are
    decoded when they are asked for, in one thread. A reader survives the rollback of a call and works in branches.

    Raises:
        FileNotFoundError: there is no such file.
        DECORDError: it is no video, or cannot be decoded.
    """

    def __init__(self, uri: Any, ctx: Any = None, width: int = -1, height: int = -1, num_threads: int = 0) -> None:
        self._begin(uri, (width, height))
        self._opened()

    @classmethod
    def later(cls, path: str) -> VideoReader:
        """Return a reader of a file that is opened when it is first needed."""
        reader = cls.__new__(cls)
        reader._begin(path, (-1, -1))
        return reader

    def _begin(self, uri: Any, wanted: tuple[int, int]) -> None:
        # The whole path: a program may go to another folder before the file is opened.
        self._source = uri if hasattr(uri, "read") else os.path.abspath(os.fspath(uri))
        self._wanted = wanted
        self._frames: Frames | None = None
        self._kept: OrderedDict[int, FramePixels] = OrderedDict()
        self._position = 0

    def _opened(self) -> Frames:
        if self._frames is None:
            if isinstance(self._source, str):
                self._frames = open_frames(self._source)
            else:
                self._frames = read_frames(io.BytesIO(self._source.read()))
        return self._frames

    @property
    def _timeline(self) -> Timeline:
        return self._opened().timeline

    def __repr__(self) -> str:
        source = self._source if isinstance(self._source, str) else "a file object"
        return f"VideoReader({source!r})"

    def __len__(self) -> int:
        return len(self._timeline.starts)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Number of frames, height, width, 3."""
        width, height = self._size
        return len(self), height, width, 3

    def __getitem__(self, index: Any) -> FrameArray:
        if isinstance(index, slice):
            return self.get_batch(range(*index.indices(len(self))))
        if isinstance(index, list | tuple | range | np.ndarray):
            return self.get_batch(index)
        return self._decoded(self._number(index)).copy().view(FrameArray)

    def __iter__(self) -> Iterator[FrameArray]:
        return (self[number] for number in range(len(self)))

    def get_batch(self, indices: Any) -> FrameArray:
        """Return the frames of these numbers, in this order, as one array (n, height, width, 3)."""
        numbers = [self._number(index) for index in _listed(indices)]
        width, height = self._size
        batch = np.empty((len(numbers), height, width, 3), np.uint8).view(FrameArray)
        places: dict[int, list[int]] = {}
        for place, number in enumerate(numbers):
            places.setdefault(number, []).append(place)
        # In the order of the video every frame is decoded once.
        for number in sorted(places):
            batch[places[number]] = self._decoded(number)
        return batch

    def get_avg_fps(self) -> float:
        """Return the mean frames per second."""
        return self._timeline.fps

    def get_frame_timestamp(self, idx: Any) -> NDArray[np.float32]:
        """Start and end of a frame in seconds, shape (2,); of several, (n, 2)."""
        timeline = self._timeline
        if isinstance(idx, slice):
            idx = range(*idx.indices(len(self)))
        several = isinstance(idx, Iterable)
        numbers = [self._number(index) for index in (_listed(idx) if several else [idx])]
        times = np.array([(timeline.starts[n], timeline.end(n)) for n in numbers], np.float32).reshape(-1, 2)
        return times if several else times[0]

    def get_key_indices(self) -> list[int]:
        """Return numbers of the key frames."""
        return list(self._timeline.keys)

    def next(self) -> FrameArray:
        """Return the frame at the position, which moves on by one. Raises StopIteration at the end."""
        if self._position >= len(self):
            raise StopIteration
        self._position += 1
        return self[self._position - 1]

    __next__ = next

    def seek(self, pos: int) -> None:
        """Make `pos` the frame that `next` gives."""
        self._position = self._number(pos)

    seek_accurate = seek

    def skip_frames(self, num: int = 1) -> None:
        """Move the position on by `num` frames."""
        self._position = min(len(self), self._position + max(0, num))

    @property
    def _size(self) -> tuple[int, int]:
        """Width and height of the frames that are given."""
        width, height = self._wanted
        return (width if width > 0 else self._timeline.width, height if height > 0 else self._timeline.height)

    def _number(self, index: Any) -> int:
        number, count = operator.index(index), len(self)
        if not -count <= number < count:
            raise IndexError(f"there is no frame {number}: the video has {count}, from 0 to {count - 1}")
        return number % count

    def _decoded(self, number: int) -> FramePixels:
        """Return the frame, not to be changed by anyone."""
        if number in self._kept:
            self._kept.move_to_end(number)
            return self._kept[number]
        pixels = self._opened().picture(number, self._size)
        self._kept[number] = pixels
        while len(self._kept) > 1 and len(self._kept) * pixels.nbytes > CACHE_BYTES:
            self._kept.popitem(last=False)
        return pixels


def _listed(indices: Any) -> list[Any]:
    return list(indices.reshape(-1)) if isinstance(indices, np.ndarray) else list(indices)


def _set_bridge(new_bridge: str) -> None:
    if new_bridge != "native":
        raise ImportError(f"there is no bridge to {new_bridge!r} here: frames are numpy arrays; call asnumpy()")


def install() -> None:
    """Make what `import decord` gives: a module that has the names of decord and no others."""
    if "decord" in sys.modules:
        return
    module, bridge = (ModuleType(name, "Frames of videos by their number.") for name in ("decord", "decord.bridge"))
    bridge.__dict__["set_bridge"] = _set_bridge
    module.__dict__.update({kind.__name__: kind for kind in (VideoReader, cpu, gpu)}, DECORDError=DECORDError)
    module.__dict__.update(bridge=bridge, __version__="0.6.0", __path__=[])
    sys.modules.update({"decord": module, "decord.bridge": bridge})
