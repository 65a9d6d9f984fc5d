"""Lead every way in which a program shows a picture to one collector.

`install_show` patches matplotlib, Pillow, OpenCV and `display` once per process tree; a later call only changes the
collector. A program that undoes the patches loses its own pictures, nothing else.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.abc
import importlib.machinery
import io
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageShow
from PIL import Image as PillowImage

from .pixels import as_uint8, is_picture
from .shown import ShownPictures, current, use
from .shown import install as install_matplotlib

# Without IPython a tiny stand-in offers `display`, `Image`, `Markdown`, `HTML` and `clear_output`. It is imported only
# when a program asks for it: libraries that look into `sys.modules` for a notebook find none, and those that look
# further find a version, and that no shell is running. With IPython, its `display` is replaced when it is imported.

_DISPLAY_MODULE = "IPython.core.display_functions"
_VERSION = (9, 0, 0)
"""Of the stand-in: libraries ask for it before they touch a notebook. From 8.24 on, matplotlib leaves IPython alone."""


def install(display: Callable[..., None]) -> None:
    """Make `display` the one that programs import from IPython."""
    for name in (_DISPLAY_MODULE, "IPython.display"):
        if name in sys.modules:
            setattr(sys.modules[name], "display", display)  # noqa: B010
    if not any(isinstance(finder, _StandIn) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(display))
        sys.meta_path.append(_StandIn(display))  # last: the real IPython is found before it


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the one module of IPython that defines `display`, and patches it when it has been executed."""

    def __init__(self, display: Callable[..., None]) -> None:
        self.display = display

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _DISPLAY_MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            loader, display, execute = spec.loader, self.display, spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                execute(module)
                module.__dict__["display"] = display

            loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class DisplayText:
    """Stand-in for `IPython.display.Markdown` and `HTML`: its repr is the text itself."""

    def __init__(self, data: object = "", *_args: object, **_kwargs: object) -> None:
        self.data = str(data)

    def __repr__(self) -> str:
        return self.data


class IpythonImage:
    """Stand-in for `IPython.display.Image`: a picture from a file or from bytes."""

    def __init__(self, data: Any = None, *_args: object, filename: str | None = None, **_kwargs: object) -> None:
        source = filename if filename is not None else data
        if isinstance(source, bytes):
            self.data = source
        else:
            with builtins.open(source, "rb") as file:
                self.data = file.read()

    def _repr_png_(self) -> bytes:
        return self.data


def rendered(thing: object) -> PillowImage.Image | None:
    """The picture that an object draws of itself the way IPython asks for it (`_repr_png_`), or None."""
    for name in ("_repr_png_", "_repr_jpeg_"):
        method = getattr(type(thing), name, None)
        if method is None:
            continue
        data = method(thing)
        data = data[0] if isinstance(data, tuple) else data
        if isinstance(data, bytes):
            image = PillowImage.open(io.BytesIO(data))
            image.load()
            return image
    return None


class _StandIn(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and makes the modules `IPython` and `IPython.display` where no others are found."""

    def __init__(self, display: Callable[..., None]) -> None:
        self.names: dict[str, dict[str, object]] = {
            "IPython": {
                "__doc__": "A stand-in with `display` only.",
                "__version__": ".".join(map(str, _VERSION)),
                "version_info": (*_VERSION, ""),
                "get_ipython": lambda: None,
            },
            "IPython.display": {
                "__doc__": "A stand-in for the real module.",
                "display": display,
                "Image": IpythonImage,
                "Markdown": DisplayText,
                "HTML": DisplayText,
                "clear_output": lambda wait=False: None,
            },
        }

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.names:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname == "IPython")

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__.update(self.names[module.__name__])
        if module.__name__ == "IPython":
            importlib.import_module("IPython.display")  # as with the real one, `import IPython` is enough


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
    return lambda *_args, **_kwargs: value


def install_show(pictures: ShownPictures) -> None:
    """Lead everything that is shown from now on to `pictures`."""
    use(pictures)
    patch()


def patch() -> None:
    """Replace the functions that show pictures, once; done early, the copies of this process inherit it."""
    install_matplotlib()
    install_opencv()
    if getattr(builtins, "display", None) is not display:
        builtins.display = display  # type: ignore[attr-defined]
        install(display)
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
        return rendered(thing)
    except Exception:
        return None


def _show_image(image: Image.Image, *_args: object, **_kwargs: object) -> None:
    shown = current()
    if shown is not None:
        shown.add(image, "show")


def _show_function(image: Image.Image, *_args: object, **_kwargs: object) -> bool:
    _show_image(image)
    return True
