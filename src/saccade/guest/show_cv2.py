"""OpenCV's windows, led to the collector; the headless build of OpenCV would raise instead.

`imshow` shows the picture. All functions that handle windows do nothing, and no key is ever pressed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .pixels import as_uint8
from .shown import current

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


def install() -> None:
    """Patch OpenCV, once, if it is there."""
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
    """The array as red-green-blue(-alpha) uint8, or as it was if OpenCV could not show it either."""
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
    def window_function(*_args: object, **_kwargs: object) -> int | None:
        return value

    return window_function
