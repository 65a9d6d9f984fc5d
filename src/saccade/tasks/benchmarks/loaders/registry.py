"""The loaders by versioned id. Further packages add some by the entry point group `saccade.loaders`."""

from __future__ import annotations

from typing import cast

from saccade.errors import RegistryError
from saccade.record.registry import Registry
from saccade.tasks.benchmarks.loaders.base import Loader

_HOME = "saccade.tasks.benchmarks.loaders"

LOADERS = Registry(
    "loaders",
    {
        "rows@1": f"{_HOME}.rows:ROWS",
        "vlmevalkit@1": f"{_HOME}.vlmevalkit:VLMEVALKIT",
        "llava@1": f"{_HOME}.rows:LLAVA",
        "verl@1": f"{_HOME}.rows:VERL",
        "folders@1": f"{_HOME}.folders:FOLDERS",
        "beside@1": f"{_HOME}.folders:BESIDE",
    },
)


def load_loader(wanted: str) -> Loader:
    """The loader that `wanted` names.

    Raises:
        RegistryError: nothing has that id (suggests the nearest), or it cannot be imported.
    """
    loader = LOADERS.load(wanted)
    if not callable(getattr(loader, "rows", None)):
        raise RegistryError(f"{wanted} of loaders has no method `rows`; correct its target")
    return cast(Loader, loader)
