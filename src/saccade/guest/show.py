"""Lead every way in which a program shows a picture to one collector.

`patch` replaces functions of matplotlib, Pillow, OpenCV and `display` once per process tree; `shown.use` names the
collector. A program that undoes the patches loses its own pictures, nothing else.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from .notebook import drawn
from .notebook import install as install_notebook
from .pixels import as_uint8, is_picture
from .shown import current
from .shown import install as install_matplotlib

try:
    import cv2
except ImportError:
    cv2 = None  # type: ignore[assignment,unused-ignore]

NO_KEY = -1
_NOTHING = (
    *("namedWindow", "destroyWindow", "destroyAllWindows", "resizeWindow", "moveWindow", "setWindowTitle"),
    *("setWindowProperty", "updateWindow", "startWindowThread", "setMouseCallback", "createTrackbar"),
    "setTrackbarPos",
)


def install_opencv() -> None:
    """Patch OpenCV, once, if it is there: windows do nothing, and no key is ever pressed."""
    if cv2 is None or cv2.imshow is imshow:
        return
    setattr(cv2, "imshow", imshow)  # noqa: B010 (its type differs between builds)
    for name in ("waitKey", "waitKeyEx", "pollKey", "getWindowProperty"):
        setattr(cv2, name, _returns(NO_KEY))
    for name in _NOTHING:
        setattr(cv2, name, _returns(None))


def imshow(_winname: str, mat: Any) -> None:
    """Show an array as OpenCV would: blue-green-red, 16-bit numbers over 256, floats times 255."""
    shown = current()
    if shown is None:
        return
    shown.add(to_rgb(np.asarray(mat)), "show")


def to_rgb(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array as red-green-blue(-alpha) uint8, or as it was if OpenCV could not show it either."""
    if array.dtype in (np.uint16, np.int32):
        array = np.clip(array // 256, 0, 255).astype(np.uint8)
    elif array.dtype.kind == "f" and array.size:
        array = (np.clip(np.nan_to_num(array), 0, 1) * 255 + 0.5).astype(np.uint8)
    pixels = as_uint8(array)
    if pixels is None or pixels.ndim == 2:
        return array if pixels is None else pixels
    order = [2, 1, 0] if pixels.shape[2] == 3 else [2, 1, 0, 3]
    return np.ascontiguousarray(pixels[:, :, order])


def _returns(value: int | None) -> Callable[..., int | None]:
    return lambda *_args, **_kwargs: value


def patch() -> None:
    """Replace the functions that show pictures, once; done early, the copies of this process inherit it."""
    install_matplotlib()
    install_opencv()
    if getattr(builtins, "display", None) is not display:
        builtins.display = display  # type: ignore[attr-defined]
        install_notebook(display)
    from PIL import ImageShow  # not before the stand-in for IPython is there

    Image.Image.show = _show_image  # type: ignore[method-assign,assignment]
    Image._show = _show_function  # type: ignore[attr-defined]
    ImageShow.show = _show_function


def display(*things: Any, **_options: object) -> None:
    """Show pictures, figures and picture-like arrays; print the repr of anything else."""
    shown = current()
    for thing in things:
        picture = thing if is_picture(thing) else drawn(thing)
        if picture is None or shown is None:
            sys.stdout.write(repr(thing) + "\n")
        else:
            shown.add(picture, "display")


def _show_image(image: Image.Image, *_args: object, **_kwargs: object) -> None:
    shown = current()
    if shown is not None:
        shown.add(image, "show")


def _show_function(image: Image.Image, *_args: object, **_kwargs: object) -> bool:
    _show_image(image)
    return True
