"""How files of pictures and videos are called: one list for what users bring, what is written for others, and worlds.

What a file is, its bytes say; a name only decides what a broken file is called in an error, and what a copy is called.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

SUFFIXES: Final = {
    "image/apng": (".apng",),
    "image/avif": (".avif",),
    "image/bmp": (".bmp", ".dib"),
    "image/gif": (".gif",),
    "image/jp2": (".jp2", ".j2k", ".jpx"),
    "image/jpeg": (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"),
    "image/png": (".png",),
    "image/tiff": (".tiff", ".tif"),
    "image/webp": (".webp",),
    "image/x-portable-anymap": (".pnm", ".pbm", ".pgm", ".ppm"),
    "video/3gpp": (".3gp", ".3g2"),
    "video/mp2t": (".ts", ".m2ts", ".mts"),
    "video/mp4": (".mp4", ".m4v"),
    "video/mpeg": (".mpg", ".mpeg", ".vob"),
    "video/ogg": (".ogv", ".ogg"),
    "video/quicktime": (".mov", ".qt"),
    "video/webm": (".webm",),
    "video/x-flv": (".flv", ".f4v"),
    "video/x-matroska": (".mkv",),
    "video/x-ms-asf": (".wmv", ".asf"),
    "video/x-msvideo": (".avi",),
    "video/x-mxf": (".mxf",),
}
"""By the type that `saccade.media` finds in a file; the first ending of each is written."""
_KINDS: Final = {suffix: mime.partition("/")[0] for mime, suffixes in SUFFIXES.items() for suffix in suffixes}


def suffixes_of(kind: str) -> tuple[str, ...]:
    """Every ending of a file of `image` or `video`, with its dot."""
    return tuple(suffix for suffix, known in _KINDS.items() if known == kind)


def suffix_of(mime: str) -> str:
    """The ending of a file of that type, with its dot; empty for a type that is not listed."""
    return SUFFIXES.get(mime, ("",))[0]


def named_as(kind: str, name: str) -> bool:
    """Whether a file's name or address ends as those of `image` or `video` do."""
    path = urlsplit(name).path if "://" in name else name
    return _KINDS.get(PurePosixPath(path).suffix.lower()) == kind
