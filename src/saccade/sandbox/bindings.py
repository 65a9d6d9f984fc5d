"""What the host can bind in a session, and how it travels there."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from saccade.errors import MediaError, SandboxError
from saccade.guest.wire import MAX_FDS, RAW_MODES, sealed_memfd, sealed_pieces
from saccade.sandbox.base import LazyImage, Limits, VideoFile, as_json, check_name
from saccade.sandbox.result import Picture

if TYPE_CHECKING:
    from PIL.Image import Image


class Memfd:
    """A memfd that is closed when nothing refers to it any more."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


@dataclass(frozen=True, slots=True)
class Bound:
    """Something ready to be bound: what the guest is told (see `saccade.guest.images.bind`), and its bytes."""

    spec: Mapping[str, Any]
    memfd: Memfd | None = None
    lazy: LazyImage | None = None
    """A picture that is decoded when a program first looks at it; it has no bytes yet."""


def bound(name: str, value: object) -> Bound:
    """Return `value` ready to be bound as `name`. Raises `SandboxError` for a name or a value that cannot be."""
    check_name(name)
    if isinstance(value, VideoFile):
        return Bound({"kind": "video", "name": name, "path": workspace_path(value.path)})
    if isinstance(value, LazyImage):
        return Bound(_image(name, value.mode, (value.width, value.height), value.sha256), lazy=value)
    if type(value).__module__.partition(".")[0] == "numpy":
        return _bound_array(name, value)
    image = _as_image(value)
    if image is not None:
        return Bound(_image(name, image.mode, image.size, ""), Memfd(image_memfd(image)))
    as_json(name, value)
    return Bound({"kind": "value", "name": name, "value": value})


def bound_file(path: str, data: bytes, limits: Limits) -> Bound:
    """Return `data` ready to be written to `path` in the workspace. Raises `SandboxError` for a path that leaves it."""
    name = workspace_path(path)
    if not isinstance(data, bytes | bytearray | memoryview):
        raise SandboxError(f"the contents of {path!r} are bytes, not {type(data).__name__}: give e.g. text.encode()")
    if len(data) > min(limits.file_bytes, limits.workspace_bytes):
        raise SandboxError(
            f"{path!r} has {len(data):,} bytes: more than the limits of the sandbox allow for one file (file_bytes "
            f"{limits.file_bytes:,}, workspace_bytes {limits.workspace_bytes:,}). Allow more (session.file_bytes)."
        )
    return Bound({"kind": "file", "path": name}, Memfd(sealed_memfd("saccade-file", data)))


LONGEST_NAME = 255
"""Bytes of the name of a file or folder, as Linux has it."""
LONGEST_PATH = 3800
"""Bytes of a path in the workspace; the kernel takes 4,096 with the folder in which that lies."""


def workspace_path(path: str) -> str:
    """Bring `path` into its plain form. Raises `SandboxError` unless it is relative and stays in the workspace."""
    if not isinstance(path, str):
        raise SandboxError(f"{path!r} is not a path below the workspace: a path is text")
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or ".." in pure.parts or "\0" in path or str(pure) == ".":
        raise SandboxError(f"{path!r} is not a path below the workspace: use a relative path without '..'")
    try:
        sizes = [len(part.encode()) for part in (str(pure), *pure.parts)]
    except UnicodeEncodeError:
        raise SandboxError(f"{path!r} cannot be the name of a file: it has half a character in it") from None
    if sizes[0] > LONGEST_PATH or max(sizes[1:]) > LONGEST_NAME:
        raise SandboxError(
            f"{path[:100]!r}... is too long: a name may have {LONGEST_NAME} bytes, a path {LONGEST_PATH:,}. Shorten it."
        )
    return str(pure)


def _check_together(files: Mapping[str, bytes], paths: list[str], limits: Limits) -> None:
    """Raise `SandboxError` unless the files with these plain `paths` can lie in one workspace."""
    total = sum(map(len, files.values()))
    if total > limits.workspace_bytes:
        raise SandboxError(
            f"the {len(files)} files have {total:,} bytes together: more than the workspace holds (workspace_bytes "
            f"{limits.workspace_bytes:,}). Give fewer files, or open the sandbox with a larger workspace."
        )
    folders = {str(parent) for path in paths for parent in PurePosixPath(path).parents} - {"."}
    if twice := {path for path, count in Counter(paths).items() if count > 1 or path in folders}:
        raise SandboxError(f"{min(twice)!r} is given twice, or as a file and as a folder: give each path once")
    if len(paths) + len(folders) > limits.workspace_files:
        raise SandboxError(
            f"{len(paths):,} files in {len(folders):,} folders are more than the workspace holds (workspace_files "
            f"{limits.workspace_files:,}). Give fewer files, or allow more."
        )


def bound_all(bindings: Mapping[str, object], files: Mapping[str, bytes], limits: Limits) -> list[Bound]:
    """Return everything that a session starts with, ready to be bound.

    Raises `SandboxError` also for what is no mapping, files that do not fit together, and a video whose file is not
    among them.
    """
    if not isinstance(bindings, Mapping):
        raise SandboxError(
            f"a session is opened with names and their values, {{'image_0': Image.open('photo.jpg')}}, not with a "
            f"{type(bindings).__name__}"
        )
    items = [
        *(bound(name, value) for name, value in bindings.items()),
        *(bound_file(path, data, limits) for path, data in files.items()),
    ]
    paths = [item.spec["path"] for item in items if item.spec["kind"] == "file"]
    _check_together(files, paths, limits)
    for item in items:
        if item.spec["kind"] == "video" and item.spec["path"] not in paths:
            raise SandboxError(
                f"{item.spec['name']!r} is the video {item.spec['path']!r}, which is not among `files`: give its bytes"
            )
    return items


def messages(items: Iterable[Bound], shared: SharedImages) -> Iterable[tuple[dict[str, Any], list[int]]]:
    """Make `bind` messages with their descriptors, as few as fit. A picture not decoded yet goes without pixels."""
    specs: list[dict[str, Any]] = []
    fds: list[int] = []
    for item in items:
        if len(fds) == MAX_FDS - 1:
            yield {"op": "bind", "specs": specs}, fds
            specs, fds = [], []
        spec = dict(item.spec)
        fd = shared.have(spec["key"]) if item.lazy is not None else item.memfd.fd if item.memfd is not None else None
        if fd is not None:
            spec["fd"] = len(fds)
            fds.append(fd)
        specs.append(spec)
    if specs:
        yield {"op": "bind", "specs": specs}, fds


def _image(name: str, mode: str, size: tuple[int, int], key: str) -> dict[str, Any]:
    return {"kind": "image", "name": name, "key": key, "mode": mode, "size": size, "fd": None}


def _bound_array(name: str, value: Any) -> Bound:
    dtype = getattr(value, "dtype", None)
    if str(dtype) != "uint8" or not value.size:
        raise SandboxError(f"{name!r} cannot be bound: only uint8 arrays that are not empty can, this one is {dtype}")
    spec = {"kind": "array", "name": name, "shape": tuple(value.shape)}
    return Bound(spec, Memfd(sealed_memfd("saccade-array", value.tobytes())))


def _as_image(value: object) -> Any:
    """Return a Pillow image of a mode that can be mapped, or None if `value` is no picture."""
    if isinstance(value, Picture):
        return value.image()
    from PIL import Image

    if isinstance(value, Image.Image):
        if value.mode in ("L", "RGB", "RGBA"):
            return value
        return value.convert("RGBA" if value.mode in ("LA", "PA") or "transparency" in value.info else "RGB")
    return None


# Decoded pictures are in shared memory: each is decoded once and mapped by every session that looks at it.

_BAND = 1 << 22
"""Pixels copied at once."""


def image_memfd(image: Image) -> int:
    """Return a sealed memfd with the pixels of `image` (mode L, RGB or RGBA); the caller owns it."""
    raw = RAW_MODES.get(image.mode)
    if raw is None:
        raise SandboxError(
            f"a picture of mode {image.mode!r} cannot be bound: modes are {', '.join(RAW_MODES)}. "
            "Convert it first, e.g. image.convert('RGB')."
        )
    return sealed_pieces("saccade-image", lambda: _bands(image, raw))


def _bands(image: Image, raw: str) -> Iterator[bytes]:
    """Yield the raw bytes in pieces: of 500 megapixels the whole would be 2 GB next to the pixels themselves."""
    width, height = image.size
    rows = max(1, _BAND // max(1, width))
    for top in range(0, height, rows):
        yield image.crop((0, top, width, min(top + rows, height))).tobytes("raw", raw)


def decode_to_memfd(image: LazyImage) -> int:
    """Decode `image` into a memfd. Raises what `decode` raises, and `MediaError` if it is not as it was stated."""
    decoded = image.decode()
    if (decoded.mode, decoded.size) != (image.mode, (image.width, image.height)):
        raise MediaError(
            f"picture {image.sha256[:12]} is {decoded.mode} of {decoded.width}x{decoded.height} pixels, but bound as "
            f"{image.mode} of {image.width}x{image.height}: state what `decode` returns"
        )
    return image_memfd(decoded)


class SharedImages:
    """Memfds of decoded pictures by sha256, the least recently used dropped above `max_bytes`; who has one keeps it."""

    def __init__(self, max_bytes: int = 1 << 30) -> None:
        self._max_bytes = max_bytes
        self._fds: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._decoding: dict[str, asyncio.Task[None]] = {}

    def have(self, sha256: str) -> int | None:
        """Return the memfd of that picture if it is decoded already (owned by this cache), else None."""
        if sha256 not in self._fds:
            return None
        self._fds.move_to_end(sha256)
        return self._fds[sha256][0]

    async def get(self, image: LazyImage) -> int:
        """Return the memfd of `image` (the cache's own), decoded in a thread if need be. Raises as `decode` does."""
        fd = self.have(image.sha256)
        while fd is None:
            task = self._decoding.get(image.sha256)
            if task is None:
                task = asyncio.create_task(self._decode(image))
                self._decoding[image.sha256] = task
                task.add_done_callback(lambda _: self._decoding.pop(image.sha256, None))
            await asyncio.shield(task)
            fd = self.have(image.sha256)
        return fd

    async def _decode(self, image: LazyImage) -> None:
        fd = await asyncio.to_thread(decode_to_memfd, image)
        self._fds[image.sha256] = (fd, os.fstat(fd).st_size)
        # The newest stays even if it alone is larger than the budget: someone waits for it.
        while len(self._fds) > 1 and sum(size for _, size in self._fds.values()) > self._max_bytes:
            _, (old, _size) = self._fds.popitem(last=False)
            os.close(old)

    def close(self) -> None:
        """Close every memfd."""
        while self._fds:
            _, (fd, _size) = self._fds.popitem()
            os.close(fd)
