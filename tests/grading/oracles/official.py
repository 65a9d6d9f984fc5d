"""The official evaluators' own functions, out of the packages lmms-eval and VLMEvalKit; `make oracles` installs them.

Their packages' `__init__` files are left out: VLMEvalKit's import all of its data sets and turn certificates off for
the whole process. What lmms-eval's functions never call (data sets, judges over the network) is left out by names that
hold nothing: importing those would need some forty packages more. VLMEvalKit's modules are imported as they are, but
for the clients of its judges.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

_PACKAGES = {
    "lmms_eval": ("tasks", "api", *(f"tasks.{name}" for name in ("_task_utils", "mmmu", "mathvista", "vsibench"))),
    "vlmeval": ("dataset", "dataset.utils", "dataset.utils.spatial_bench"),
}
_NOT_CALLED: dict[str, dict[str, tuple[str, ...]]] = {
    "lmms_eval": {
        "datasets": ("Dataset",),
        "evaluate": (),
        "lmms_eval.llm_judge": ("Request", "ServerConfig", "get_server"),
        "lmms_eval.api.model": ("lmms",),
    },
    "vlmeval": {"vlmeval.dataset.utils": ("build_judge",)},
}


class _Hollow:
    """Takes the place of a class or function whose result no comparison uses."""

    def __init__(self, *_: object, **__: object) -> None: ...


@cache
def folder(package: str) -> Path | None:
    """Return where a package is installed; None if it is not."""
    spec = None if package in sys.modules else importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else None


@cache
def official(name: str) -> Any:
    """Import the module `name` of a package, as in `lmms_eval.tasks.chartqa.utils`."""
    _prepare(name.partition(".")[0])
    return importlib.import_module(name)


@cache
def _prepare(package: str) -> None:
    root = folder(package)
    assert root is not None, f"{package} is not installed: run `make oracles`"
    for part in ("", *_PACKAGES[package]):
        module = ModuleType(f"{package}.{part}".rstrip("."))
        module.__path__ = [str(root.joinpath(*part.split(".")))]
        sys.modules[module.__name__] = module
    for name, attributes in _NOT_CALLED[package].items():
        module = sys.modules.get(name) or ModuleType(name)
        for attribute in attributes:
            setattr(module, attribute, _Hollow)
        sys.modules[name] = module
