"""Turns the colours of a decoded picture into sRGB by the profile that its file carries.

Everything after decoding takes colours as sRGB: models, graders of colours, code in the sandbox. A picture whose
profile says nothing else keeps its pixels exactly.
"""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO
from typing import Any, Final, NamedTuple

from PIL import Image, ImageCms

from saccade.media.modes import to_plain

_AS_SRGB: Final = 2
"""Levels of 255 by which a profile may differ from sRGB on the probe and still count as sRGB."""
_SPACES: Final = {"GRAY": "L", "RGB ": "RGB", "CMYK": "CMYK"}
"""Colour space of a profile -> Pillow's mode of the pixels that it describes."""


class Colours(NamedTuple):
    """A picture and what became of its colours."""

    image: Image.Image
    changed: bool
    """Whether its pixels are others than those of the file."""
    note: str = ""
    """Why its profile was not followed; empty where it was, or where there is none."""


class _Profile(NamedTuple):
    mode: str
    """Of the pixels that the profile describes."""
    transform: Any
    """To RGB; None if the profile is sRGB's own, or cannot be used."""
    problem: str = ""


def in_srgb(image: Image.Image) -> Colours:
    """Return the loaded `image` with its colours in sRGB.

    Pixels of CMYK without a profile are turned by Pillow's plain rule. A profile that is broken, or that belongs to
    another colour space than the pixels', is left out and noted.
    """
    data = image.info.get("icc_profile")
    if not data:
        return Colours(image, image.mode == "CMYK")
    profile = _profile(bytes(data))
    if profile.problem:
        return Colours(image, image.mode == "CMYK", profile.problem)
    grey, clear = image.mode in ("1", "L", "LA", "I", "F") or image.mode.startswith("I;"), image.has_transparency_data
    if (image.mode == "CMYK") != (profile.mode == "CMYK") or (profile.mode == "L" and not grey):
        return Colours(
            image,
            image.mode == "CMYK",
            f"its colour profile is for {profile.mode} and its pixels are {image.mode}, so the profile is not followed",
        )
    if profile.transform is None or (grey and profile.mode == "RGB"):
        return Colours(image, image.mode == "CMYK")
    plain = image if image.mode == "CMYK" else to_plain(image)
    alpha = plain.getchannel("A") if clear and plain.mode == "RGBA" else None
    converted = ImageCms.applyTransform(plain.convert(profile.mode), profile.transform)
    assert converted is not None  # None only in place
    if grey:
        converted = converted.convert("L")
    if alpha is not None:
        converted = converted.convert("RGBA")
        converted.putalpha(alpha)
    converted.info = {}
    return Colours(converted, True)


@lru_cache(maxsize=64)
def _profile(data: bytes) -> _Profile:
    """Read a profile; cameras write the same one into each picture."""
    try:
        read = ImageCms.ImageCmsProfile(BytesIO(data))
        space = str(read.profile.xcolor_space)
        if space not in _SPACES:
            return _Profile("", None, f"its colour profile is for {space.strip()}, which is not followed")
        mode = _SPACES[space]
        transform = ImageCms.buildTransform(
            read, ImageCms.createProfile("sRGB"), mode, "RGB", ImageCms.Intent.RELATIVE_COLORIMETRIC
        )
        probe = _probe(mode)
        turned = ImageCms.applyTransform(probe, transform)
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError) as error:
        why = str(error) or type(error).__name__
        return _Profile("", None, f"its colour profile cannot be read ({why}), so its colours are taken as sRGB")
    assert turned is not None
    gaps = (abs(one - other) for one, other in zip(turned.tobytes(), probe.convert("RGB").tobytes(), strict=True))
    return _Profile(mode, None if mode != "CMYK" and max(gaps) <= _AS_SRGB else transform)


def _probe(mode: str) -> Image.Image:
    """Return a row of colours from the whole range of `mode`."""
    if mode == "L":
        return Image.frombytes("L", (16, 1), bytes(range(0, 256, 17)))
    steps = (0, 51, 128, 204, 255)
    colours = bytes(level for r in steps for g in steps for b in steps for level in (r, g, b))
    return Image.frombytes("RGB", (len(colours) // 3, 1), colours).convert(mode)
