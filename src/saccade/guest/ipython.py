"""`from IPython.display import display` in a jail that has no IPython, or has the real one.

Without IPython a tiny stand-in offers `display`, `Image`, `Markdown`, `HTML` and `clear_output`. With IPython, its
`display` is replaced when it is imported. Nothing else of IPython is promised.
"""

from __future__ import annotations

import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import io
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from PIL import Image as PillowImage

_DISPLAY_MODULE = "IPython.core.display_functions"


def install(display: Callable[..., None]) -> None:
    """Make `display` the one that programs import from IPython."""
    if importlib.util.find_spec("IPython") is None:
        _stand_in(display)
        return
    if _DISPLAY_MODULE in sys.modules:
        for name in (_DISPLAY_MODULE, "IPython.display"):
            if name in sys.modules:
                setattr(sys.modules[name], "display", display)  # noqa: B010
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(display))


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


class Text:
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


def _stand_in(display: Callable[..., None]) -> None:
    package = types.ModuleType("IPython", "A stand-in with `display` only.")
    module = types.ModuleType("IPython.display", "A stand-in for the real module.")
    names: dict[str, object] = {
        "display": display,
        "Image": Image,
        "Markdown": Text,
        "HTML": Text,
        "clear_output": _clear_output,
    }
    module.__dict__.update(names)
    package.__dict__.update(display=module, get_ipython=_get_ipython, __path__=[])
    sys.modules["IPython"] = package
    sys.modules["IPython.display"] = module


def _clear_output(wait: bool = False) -> None:
    """Nothing is cleared: what was printed stays in the report."""


def _get_ipython() -> None:
    return None
