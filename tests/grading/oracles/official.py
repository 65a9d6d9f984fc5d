"""The official evaluators' own functions, out of the package lmms-eval; `make oracles` installs it.

Its packages' `__init__` files and what the functions never call (data sets, judges over the network) are left out by
names that hold nothing: importing those would need some forty packages more.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

_PACKAGES = ("", ".tasks", ".api", *(f".tasks.{name}" for name in ("_task_utils", "mmmu", "mathvista", "vsibench")))
_NOT_CALLED = {
    "datasets": ("Dataset",),
    "evaluate": (),
    "lmms_eval.llm_judge": ("Request", "ServerConfig", "get_server"),
    "lmms_eval.api.model": ("lmms",),
}


class _Hollow:
    """Takes the place of a class or function whose result no comparison uses."""

    def __init__(self, *_: object, **__: object) -> None: ...


@cache
def folder() -> Path | None:
    """Where lmms-eval is installed; None if it is not."""
    spec = importlib.util.find_spec("lmms_eval")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else None


@cache
def official(name: str) -> Any:
    """The module `name` of lmms-eval, as in `tasks.chartqa.utils`."""
    root = folder()
    assert root is not None
    _hollow(root)
    return importlib.import_module(f"lmms_eval.{name}")


@cache
def _hollow(root: Path) -> None:
    for package in _PACKAGES:
        module = ModuleType(f"lmms_eval{package}")
        module.__path__ = [str(root.joinpath(*package.split(".")[1:]))]
        sys.modules[module.__name__] = module
    for name, attributes in _NOT_CALLED.items():
        module = ModuleType(name)
        for attribute in attributes:
            setattr(module, attribute, _Hollow)
        sys.modules[name] = module
