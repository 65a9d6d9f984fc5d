"""What a run on verl would be resumed from, looked at before verl is started: checkpoint and tasks.

Where the folder that its last checkpoint names is gone, verl 0.9.1 begins anew, and where the place in the data set is
missing, with the first tasks again; it says so only in its log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from saccade.errors import TrainingError
from saccade.rl.verl.rows import ROWS, read_names

_PARTS = ("model", "optim", "extra_state")
"""What each process writes."""


def check_same_tasks(out: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raises `TrainingError` where a run in `out` was begun with other tasks than those of `rows`."""
    file = out / "verl" / ROWS
    before = read_names(file) if file.exists() else []
    now = [row["extra_info"]["task"] for row in rows[: len(before)]]
    if before != now:
        raise TrainingError(
            f"the run in {out} was begun with other tasks. Put the old ones back, or begin anew in another folder."
        )


def last_checkpoint(out: Path, ranks: int) -> tuple[int, Path] | None:
    """The step of the last checkpoint of a run in `out` with `ranks` processes, and its folder; None before the first.

    Raises:
        TrainingError: it is not complete.
    """
    marker = out / "checkpoints" / "latest_checkpointed_iteration.txt"
    if not marker.exists():
        return None
    said = marker.read_text(encoding="utf-8").strip()
    if not said.isdecimal():
        raise TrainingError(f"{marker} should hold the step of the last checkpoint, and holds {said!r}")
    folder = out / "checkpoints" / f"global_step_{said}"
    files = ["data.pt", "actor/huggingface/config.json"]
    files += [f"actor/{part}_world_size_{ranks}_rank_{rank}.pt" for part in _PARTS for rank in range(ranks)]
    if missing := [name for name in files if not (folder / name).is_file()]:
        raise TrainingError(
            f"the last checkpoint of this run is not complete: {folder} lacks {len(missing)} of {len(files)} files, "
            f"{missing[0]} first. Put them back, write the step of an earlier checkpoint that is complete into "
            f"{marker}, or begin anew in another folder."
        )
    return int(said), folder
