"""PNG that is written and read quickly, for pictures that someone looks at a moment later.

Every row is stored as its difference from the row above (filter 2, "Up", of the PNG specification), which numpy makes
and undoes, and compressed by ISA-L at its level 1. Pillow tries all filters on every row. The same pixels give the same
bytes with one version of ISA-L on one kind of processor; another may compress differently. Anybody reads these files.
`quick_image` reads only files like these, and leaves all others to a decoder of PNG.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray
from PIL import Image

PNG_COLOURS = {"L": 0, "RGB": 2, "RGBA": 6}
"""Mode of a picture -> how a PNG's header calls it, at eight bits a channel."""
MOST_PIXELS = 1 << 22
"""Of a picture that `quick_image` reads: it holds them three times for a moment."""
MOST_ROWS = 1 << 14
"""Of such a picture: each is undone by a step of its own."""
_START = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
_FIELDS = ">IIBBBBB"
"""Of the header: width, height, bits, colour, and how it is compressed, filtered and interlaced: always 0 here."""
_HEAD = len(_START) + 17
_END = b"\x00\x00\x00\x00IEND\xaeB`\x82"
_UP = 2
_BAND = 1 << 22
"""Bytes of pixels that are filtered at once, and make a chunk of the file."""
_MOST_CHUNKS = 8 * MOST_PIXELS // _BAND + 1
"""Of a file: as many bands as a picture can have, of which none is less than half full but the last."""
_FIRST_ROWS = 8
"""Unpacked before all others: files of other programs have other filters there."""

_BROKEN = cast("type[Exception]", isal_zlib.error)  # its stub calls the class an instance


class _Header(NamedTuple):
    mode: str
    width: int
    height: int

    @property
    def stride(self) -> int:
        """Bytes of a row of pixels."""
        return self.width * len(self.mode)


def quick_png(image: Image.Image) -> bytes:
    """Return the pixels of a picture of mode L, RGB or RGBA, losslessly, without metadata. Raises `ValueError` if it
    has another mode, or no pixels.
    """
    if image.mode not in PNG_COLOURS or not (image.width and image.height):
        raise ValueError(f"cannot write a picture of mode {image.mode} and {image.width}x{image.height} pixels so")
    head = struct.pack(_FIELDS, image.width, image.height, 8, PNG_COLOURS[image.mode], 0, 0, 0)
    deflate = isal_zlib.compressobj(1)
    packed = [deflate.compress(rows) for rows in _filtered(image)]
    packed[-1] += deflate.flush()
    return b"".join(
        [_START, head, _crc(b"IHDR", head), *(part for data in packed for part in _chunk(b"IDAT", data)), _END]
    )


def quick_image(data: bytes) -> Image.Image | None:
    """Return the picture in a file as `quick_png` writes it, of at most `MOST_PIXELS` in at most `MOST_ROWS`.

    None for every other file, a damaged one too, before more memory was taken than such a picture needs: a decoder of
    PNG reads it, or says what is wrong with it.
    """
    shape = _header(data)
    packed = None if shape is None else _packed(data)
    rows = None if shape is None or packed is None else _unpacked(packed, shape.height, 1 + shape.stride)
    if shape is None or rows is None:
        return None
    pixels = np.ascontiguousarray(rows[:, 1:])
    for number in range(1, len(pixels)):
        pixels[number] += pixels[number - 1]
    return Image.frombytes(shape.mode, (shape.width, shape.height), pixels.data)


def _filtered(image: Image.Image) -> Iterator[NDArray[np.uint8]]:
    """Yield the rows of a picture as a PNG holds them before compression, some at a time."""
    stride = image.width * len(image.mode)
    step = max(1, _BAND // stride)
    above: Any = 0
    for top in range(0, image.height, step):
        band = image if step >= image.height else image.crop((0, top, image.width, min(top + step, image.height)))
        rows = np.asarray(band).reshape(band.height, stride)
        made = np.empty((band.height, 1 + stride), np.uint8)
        made[:, 0] = _UP
        np.subtract(rows[0], above, out=made[0, 1:])
        np.subtract(rows[1:], rows[:-1], out=made[1:, 1:])
        above = rows[-1]
        yield made


def _header(data: bytes) -> _Header | None:
    """Read the header, if it is one that `quick_png` writes."""
    if len(data) < _HEAD or not data.startswith(_START):
        return None
    head = data[len(_START) : _HEAD - 4]
    width, height, depth, colour, *others = struct.unpack(_FIELDS, head)
    mode = next((mode for mode, code in PNG_COLOURS.items() if code == colour), None)
    fits = width > 0 and 0 < height <= MOST_ROWS and width * height <= MOST_PIXELS
    if mode is None or depth != 8 or any(others) or not fits or data[_HEAD - 4 : _HEAD] != _crc(b"IHDR", head):
        return None
    return _Header(mode, width, height)


def _packed(data: bytes) -> bytes | None:
    """Return the data of the chunks, if nothing else follows the header and all of it is undamaged."""
    at, view = _HEAD, memoryview(data)
    parts: list[memoryview] = []
    while data[at + 4 : at + 8] == b"IDAT" and len(parts) < _MOST_CHUNKS:
        end = at + 8 + int.from_bytes(data[at : at + 4], "big")
        part = view[at + 8 : end]
        if data[end : end + 4] != _crc(b"IDAT", part):
            return None
        parts.append(part)
        at = end + 4
    return b"".join(parts) if data[at:] == _END else None


def _unpacked(packed: bytes, height: int, stride: int) -> NDArray[np.uint8] | None:
    """Return the rows, if there are as many as there should be and every one has our filter."""
    inflate = isal_zlib.decompressobj()
    first = min(_FIRST_ROWS, height) * stride
    try:
        start = inflate.decompress(packed, first)
        if set(start[::stride]) != {_UP}:
            return None
        # One byte more than there may be: a longer stream is noticed and not unpacked.
        unpacked = start + inflate.decompress(inflate.unconsumed_tail, height * stride - first + 1)
    except _BROKEN:
        return None
    if len(unpacked) != height * stride or not inflate.eof or inflate.unused_data:
        return None
    rows = np.frombuffer(unpacked, np.uint8).reshape(height, stride)
    return rows if (rows[:, 0] == _UP).all() else None


def _chunk(kind: bytes, content: bytes) -> tuple[bytes, ...]:
    return len(content).to_bytes(4, "big"), kind, content, _crc(kind, content)


def _crc(kind: bytes, content: bytes | memoryview) -> bytes:
    return isal_zlib.crc32(content, isal_zlib.crc32(kind)).to_bytes(4, "big")
