"""`from IPython.display import display` in a jail that has no IPython, or has the real one.

Without IPython a tiny stand-in offers `display`, `Image`, `Markdown`, `HTML` and `clear_output`. It is imported only
when a program asks for it: libraries that look into `sys.modules` for a notebook find none, and those that look further
find a version, and that no shell is running. With IPython, its `display` is replaced when it is imported. Nothing else
of IPython is promised.
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

from PIL import Image as PillowImage

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


class Image:
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
                "get_ipython": _get_ipython,
            },
            "IPython.display": {
                "__doc__": "A stand-in for the real module.",
                "display": display,
                "Image": Image,
                "Markdown": DisplayText,
                "HTML": DisplayText,
                "clear_output": _clear_output,
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


def _clear_output(wait: bool = False) -> None:
    """Clears nothing: what was printed stays in the report."""


def _get_ipython() -> None:
    return None
