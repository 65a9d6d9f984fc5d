"""Packages that a session adapts when they are imported, because what they ask of the system is closed there.

    threadpoolctl   looks for libraries with threads in /proc/self/maps, on behalf of scikit-learn (KMeans, for one); it
                    finds none, so each stays at its one thread. Pools that grew would leave threads behind.
    pytesseract     starts the program tesseract, and a session starts no programs: its calls say so.

Where a package is of a version that has not the places that are changed, it stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def _find_none(module: ModuleType) -> None:
    kind: Any = getattr(module, "ThreadpoolController", None)
    if hasattr(kind, "_load_libraries"):
        kind._load_libraries = lambda self: None


def _say_why(module: ModuleType) -> None:
    def refused(*args: Any, **options: Any) -> None:
        raise PermissionError("a session starts no programs, and pytesseract needs the program tesseract")

    for name in ("run_tesseract", "get_tesseract_version", "get_languages"):
        if hasattr(module, name):
            setattr(module, name, refused)


_ADAPTED: Mapping[str, Callable[[ModuleType], None]] = {
    "threadpoolctl": _find_none,
    "pytesseract.pytesseract": _say_why,
}


class _Adapting(Loader):
    """A loader that adapts what it has loaded."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _ADAPTED[module.__name__](module)


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _ADAPTED:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Adapting(spec.loader)
        return spec


def adapt_packages() -> None:
    """Adapt them at every import to come."""
    sys.meta_path.insert(0, _Finder())
