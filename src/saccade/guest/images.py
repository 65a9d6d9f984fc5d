"""Bind what the host sends: shared pictures, JSON values, videos and files.

A picture is in memory once, as raw pixels in a sealed memfd of the host. It is mapped, not copied, and only when the
program first touches its pixels: until then the variable knows only its mode and size. Sessions and branches that map
the same picture share its pages.
"""

from __future__ import annotations

import contextlib
import io
import math
import mmap
import operator
import os
import socket
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from . import wire
from .video_stream import open_frames, read_frames
from .video_timeline import FramePixels, Frames, Timeline, VideoError

# `import decord` gives this module in the jail. Differences from decord: the first frame is shown at second 0; `seek`
# is as exact as `seek_accurate`; the context is ignored (there is no GPU); no bridge to other libraries.

DECORDError = VideoError
CACHE_BYTES = 48 << 20
"""Decoded frames that a reader keeps for when they are asked for again."""


class FrameArray(np.ndarray):
    """Pixels of a frame (height, width, 3) or of several (n, height, width, 3): uint8, RGB."""

    def asnumpy(self) -> NDArray[Any]:
        """The same as a plain numpy array."""
        return self.view(np.ndarray)


class Context(NamedTuple):
    """Where decord would decode; here it says nothing."""

    device: str
    device_id: int


def cpu(device_id: int = 0) -> Context:
    """The context of a CPU."""
    return Context("cpu", device_id)


def gpu(device_id: int = 0) -> Context:
    """The context of a GPU; frames are decoded on the CPU all the same."""
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
        """A reader of a file that is opened when it is first needed."""
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
        """The frames of these numbers, in this order, as one array (n, height, width, 3)."""
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
        """Mean frames per second."""
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
        """Numbers of the key frames."""
        return list(self._timeline.keys)

    def next(self) -> FrameArray:
        """The frame at the position, which moves on by one. Raises StopIteration at the end."""
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
        """The frame, not to be changed by anyone."""
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


bridge = SimpleNamespace(set_bridge=_set_bridge)


def install() -> None:
    """Make this module what `import decord` gives."""
    sys.modules["decord"] = sys.modules[__name__]


def map_image(mode: str, size: tuple[int, int], fd: int) -> Image.Image:
    """The picture in memfd `fd` as a read-only Pillow image that shares the pages (any change makes a copy)."""
    raw = wire.RAW_MODES[mode]
    buffer = mmap.mmap(fd, size[0] * size[1] * len(raw), mmap.MAP_PRIVATE, mmap.PROT_READ)
    # What `Image.frombuffer` does, which however refuses to map RGB although it lies in memory just like RGBX.
    core = Image.core.map_buffer(buffer, size, "raw", 0, (mode, 0, 1))  # type: ignore[attr-defined]
    image = Image.new(mode, (0, 0))._new(core)
    image.readonly = 1
    return image


class SharedImage(Image.Image):
    """A picture whose pixels are asked from the host at first touch; then it is a plain `Image.Image`."""

    _saccade_source: tuple[str, socket.socket]

    @classmethod
    def of(cls, key: str, mode: str, size: tuple[int, int], sock: socket.socket) -> SharedImage:
        """A picture of known mode and size whose pixels the host has under `key`."""
        image = cls()
        image._mode = mode
        image._size = size
        # Whoever wants to change it must make a copy first, and loads it for that.
        image.readonly = 1
        image._saccade_source = (key, sock)
        return image

    def load(self) -> Any:
        """Map the pixels; Pillow calls this before every use of them."""
        if self.__class__ is SharedImage:
            key, sock = self._saccade_source
            wire.send(sock, {"op": "need", "key": key})
            answer = wire.receive(sock)
            if answer is None or len(answer[1]) != 1:
                why = "the host is gone" if answer is None else answer[0].get("error", "no pixels came")
                raise OSError(f"the picture could not be loaded: {why}")
            fd = answer[1][0]
            try:
                loaded = map_image(self._mode, self._size, fd)
            finally:
                os.close(fd)
            self.__dict__.update(loaded.__dict__)
            self.__dict__.pop("_saccade_source", None)
            self.__class__ = Image.Image  # type: ignore[assignment]
        return Image.Image.load(self)

    def copy(self) -> Image.Image:
        """A copy with pixels of its own."""
        self.load()
        return Image.Image.copy(self)

    # These look at the class before they look at the pixels.

    def __eq__(self, other: object) -> bool:
        self.load()
        return Image.Image.__eq__(self, other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce_ex__(self, protocol: Any) -> Any:
        self.load()
        return Image.Image.__reduce_ex__(self, protocol)


def map_array(shape: Sequence[int], fd: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The uint8 array in memfd `fd`; the program may change it, which copies the pages it writes to."""
    buffer = mmap.mmap(fd, math.prod(shape), mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    return np.frombuffer(buffer, np.uint8).reshape(shape)


def bind(
    namespace: dict[str, Any], specs: list[dict[str, Any]], fds: list[int], sock: socket.socket, workspace: str
) -> bool:
    """Put what the host sent into `namespace`, and its files into the workspace (the current `WORKSPACE_FD`).

    Programs know the workspace as `workspace`.

    Each spec has `kind`: `image` (name, key, mode, size, `fd` = index into `fds` or None for a picture that is not
    decoded yet), `array` (name, shape, `fd`), `value` (name, value), `video` (name, path of its file in the workspace)
    or `file` (path, `fd`). The descriptors are closed. Returns whether a file was written.
    """
    try:
        for spec in specs:
            kind = spec["kind"]
            if kind == "value":
                namespace[spec["name"]] = spec["value"]
            elif kind == "file":
                write_file(spec["path"], fds[spec["fd"]])
            elif kind == "video":
                namespace[spec["name"]] = VideoReader.later(os.path.join(workspace, spec["path"]))
            elif kind == "array":
                namespace[spec["name"]] = map_array(spec["shape"], fds[spec["fd"]])
            elif spec["fd"] is None:
                namespace[spec["name"]] = SharedImage.of(spec["key"], spec["mode"], tuple(spec["size"]), sock)
            else:
                namespace[spec["name"]] = map_image(spec["mode"], tuple(spec["size"]), fds[spec["fd"]])
    finally:
        for fd in fds:
            os.close(fd)
    return any(spec["kind"] == "file" for spec in specs)


def write_file(path: str, source: int) -> None:
    """Copy memfd `source` to `path` below the workspace, making folders as needed; refuses symlinks on the way."""
    folder = os.dup(wire.WORKSPACE_FD)
    try:
        *parents, name = path.split("/")
        for parent in parents:
            with contextlib.suppress(FileExistsError):
                os.mkdir(parent, 0o700, dir_fd=folder)
            inner = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        target = os.open(
            name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
        )
        try:
            offset, size = 0, os.fstat(source).st_size
            while offset < size:
                offset += os.write(target, os.pread(source, min(1 << 20, size - offset), offset))
        finally:
            os.close(target)
    finally:
        os.close(folder)
