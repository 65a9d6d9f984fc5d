"""Bind what the host sends: shared pictures, JSON values, videos and files.

A picture is in memory once, as raw pixels in a sealed memfd of the host. It is mapped, not copied, and only when the
program first touches its pixels: until then the variable knows only its mode and size. Sessions and branches that map
the same picture share its pages.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import socket
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from . import wire
from .video import VideoReader


def map_image(mode: str, size: tuple[int, int], fd: int) -> Image.Image:
    """Return the picture in memfd `fd` as a read-only Pillow image that shares the pages (any change makes a copy)."""
    raw = wire.RAW_MODES[mode]
    buffer = mmap.mmap(fd, size[0] * size[1] * len(raw), mmap.MAP_PRIVATE, mmap.PROT_READ)
    # What `Image.frombuffer` does, which however refuses to map RGB although it is in memory just like RGBX.
    core = Image.core.map_buffer(buffer, size, "raw", 0, (mode, 0, 1))  # type: ignore[attr-defined]
    image = Image.new(mode, (0, 0))._new(core)
    image.readonly = 1
    return image


_loaded: dict[str, Image.Image] = {}
"""Key -> the picture that the host has sent: each is asked for once, however many variables hold it."""
_asking = threading.Lock()


def _asked(key: str, mode: str, size: tuple[int, int], sock: socket.socket) -> Image.Image:
    """Return the picture that the host has under `key`. One thread asks at a time, so that each gets its own answer."""
    with _asking:
        if key not in _loaded:
            wire.send(sock, {"op": "need", "key": key})
            answer = wire.receive(sock)
            if answer is None or len(answer[1]) != 1:
                why = "the host is gone" if answer is None else answer[0].get("error", "no pixels came")
                raise OSError(f"the picture could not be loaded: {why}")
            fd = answer[1][0]
            try:
                _loaded[key] = map_image(mode, size, fd)
            finally:
                os.close(fd)
        return _loaded[key]


class SharedImage(Image.Image):
    """A picture whose pixels are asked from the host at first touch; then it is a plain `Image.Image`."""

    _saccade_source: tuple[str, socket.socket]

    @classmethod
    def of(cls, key: str, mode: str, size: tuple[int, int], sock: socket.socket) -> SharedImage:
        """Return a picture of known mode and size whose pixels the host has under `key`."""
        image = cls()
        image._mode = mode
        image._size = size
        # Whoever wants to change it must make a copy first, and loads it for that.
        image.readonly = 1
        image._saccade_source = (key, sock)
        return image

    def load(self) -> Any:
        """Map the pixels; Pillow calls this before every use of them."""
        # Another thread may load it at the same time.
        source = self.__dict__.get("_saccade_source")
        if source is not None:
            loaded = _asked(source[0], self._mode, self._size, source[1])
            # Read-only, so copied before any change: all variables with this picture may have the same pixels.
            self.im, self.readonly = loaded.im, 1
            self.__class__ = Image.Image  # type: ignore[assignment]
            self.__dict__.pop("_saccade_source", None)
        return Image.Image.load(self)

    def copy(self) -> Image.Image:
        """Return a copy with pixels of its own."""
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
    """Return the uint8 array in memfd `fd`; the program may change it, which copies the pages it writes to."""
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
