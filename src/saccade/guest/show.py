"""Every way in which a program shows a picture, led to one collector.

`install` patches matplotlib, Pillow, OpenCV and `display` once per process tree; a later call only changes the
collector. A program that undoes the patches loses its own pictures, nothing else.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any

from PIL import Image, ImageShow

from . import ipython, show_cv2, show_figures
from .pixels import is_picture
from .shown import ShownPictures, current, use

__all__ = ["ShownPictures", "display", "install", "patch"]


def install(pictures: ShownPictures) -> None:
    """Lead everything that is shown from now on to `pictures`."""
    use(pictures)
    patch()


def patch() -> None:
    """Replace the functions that show pictures, once; done early, the copies of this process inherit it."""
    show_figures.install()
    show_cv2.install()
    if getattr(builtins, "display", None) is not display:
        builtins.display = display  # type: ignore[attr-defined]
        ipython.install(display)
    Image.Image.show = _show_image  # type: ignore[method-assign,assignment]
    Image._show = _show_function  # type: ignore[attr-defined]
    ImageShow.show = _show_function


def display(*things: Any, **_options: object) -> None:
    """Show pictures, figures and picture-like arrays; print the repr of anything else."""
    shown = current()
    for thing in things:
        picture = thing if is_picture(thing) else _drawn(thing)
        if picture is None or shown is None:
            sys.stdout.write(repr(thing) + "\n")
        else:
            shown.add(picture, "display")


def _drawn(thing: object) -> Image.Image | None:
    try:
        return ipython.rendered(thing)
    except Exception:
        return None


def _show_image(image: Image.Image, *_args: object, **_kwargs: object) -> None:
    shown = current()
    if shown is not None:
        shown.add(image, "show")


def _show_function(image: Image.Image, *_args: object, **_kwargs: object) -> bool:
    _show_image(image)
    return True
