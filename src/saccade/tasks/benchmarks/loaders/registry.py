"""The loaders by versioned id. Further packages add some by the entry point group `saccade.loaders`."""

from __future__ import annotations

from typing import Final

from saccade.record.registry import Registry, has_members
from saccade.tasks.benchmarks.loaders.base import Loader

_HOME = "saccade.tasks.benchmarks.loaders"

LOADERS: Final = Registry[Loader](
    "loaders",
    {
        "rows@1": f"{_HOME}.rows:ROWS",
        "vlmevalkit@1": f"{_HOME}.vlmevalkit:VLMEVALKIT",
        "llava@1": f"{_HOME}.rows:LLAVA",
        "verl@1": f"{_HOME}.rows:VERL",
        "folders@1": f"{_HOME}.folders:FOLDERS",
        "beside@1": f"{_HOME}.folders:BESIDE",
        "llava-final@1": f"{_HOME}.training_rows:LLAVA_FINAL",
        "solution@1": f"{_HOME}.training_rows:SOLUTION",
        "thyme@1": f"{_HOME}.training_rows:THYME",
        "thyme-rl@1": f"{_HOME}.training_rows:THYME_RL",
        "pyvision-rl@1": f"{_HOME}.training_rows:PYVISION_RL",
        "pyvision-sft@1": f"{_HOME}.training_rows:PYVISION_SFT",
        "mmpr@1": f"{_HOME}.training_rows:MMPR",
        "pickled@1": f"{_HOME}.pickled:PICKLED",
        "iconqa@1": f"{_HOME}.picture_choices:PROBLEMS",
        "iconqa-folders@1": f"{_HOME}.picture_choices:FOLDERS",
        "ai2d@1": f"{_HOME}.ai2d:AI2D",
    },
    has_members(("find", "rows", "count")),
)


def load_loader(name: str) -> Loader:
    """Load the loader that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises:
        RegistryError: nothing has that id (suggests the nearest), it cannot be imported, or it is no loader.
    """
    return LOADERS.load(name)
