"""The loaders by versioned id. Further packages add some by the entry point group `saccade.loaders`."""

from __future__ import annotations

from typing import Final

from saccade.record.registry import Registry, has_members
from saccade.tasks.benchmarks.loaders.base import Loader


LOADERS: Final = Registry[Loader](
    "loaders",
    {
        "rows@1": "saccade.tasks.benchmarks.loaders.rows:ROWS",
        "vlmevalkit@1": "saccade.tasks.benchmarks.loaders.vlmevalkit:VLMEVALKIT",
        "llava@1": "saccade.tasks.benchmarks.loaders.rows:LLAVA",
        "verl@1": "saccade.tasks.benchmarks.loaders.rows:VERL",
        "folders@1": "saccade.tasks.benchmarks.loaders.folders:FOLDERS",
        "beside@1": "saccade.tasks.benchmarks.loaders.folders:BESIDE",
        "llava-final@1": "saccade.tasks.benchmarks.loaders.training_rows:LLAVA_FINAL",
        "solution@1": "saccade.tasks.benchmarks.loaders.training_rows:SOLUTION",
        "thyme@1": "saccade.tasks.benchmarks.loaders.training_rows:THYME",
        "thyme-rl@1": "saccade.tasks.benchmarks.loaders.training_rows:THYME_RL",
        "pyvision-rl@1": "saccade.tasks.benchmarks.loaders.training_rows:PYVISION_RL",
        "pyvision-sft@1": "saccade.tasks.benchmarks.loaders.training_rows:PYVISION_SFT",
        "mmpr@1": "saccade.tasks.benchmarks.loaders.training_rows:MMPR",
        "pickled@1": "saccade.tasks.benchmarks.loaders.pickled:PICKLED",
        "iconqa@1": "saccade.tasks.benchmarks.loaders.picture_choices:PROBLEMS",
        "iconqa-folders@1": "saccade.tasks.benchmarks.loaders.picture_choices:FOLDERS",
        "ai2d@1": "saccade.tasks.benchmarks.loaders.ai2d:AI2D",
    },
    has_members(("find", "rows", "count")),
)


def load_loader(name: str) -> Loader:
    """Load the loader that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises:
        RegistryError: nothing has that id (suggests the nearest), it cannot be imported, or it is no loader.
    """
    return LOADERS.load(name)
