"""What a run reports while it works: metrics.jsonl always, TensorBoard and a tracker where they are wanted.

A run that resumes after a kill forgets the lines beyond its checkpoint first, so the file reads as if nothing happened.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saccade.errors import UnavailableError
from saccade.record.disk import write_atomic
from saccade.training.settings import KeepSettings

Values = Mapping[str, float | int | str]


class TrainingJournal:
    """The metrics of one run; one process writes."""

    def __init__(self, out: Path, settings: KeepSettings, step: int, config: dict[str, Any]) -> None:
        """Continues after `step` steps.

        Raises:
            UnavailableError: the tracker is not installed.
        """
        self._out = out
        for name in ("metrics.jsonl", "samples.jsonl"):
            _forget(out / name, step)
        self._board = _tensorboard(out / "tensorboard", step) if settings.tensorboard else None
        self._tracker = None if settings.tracker == "none" else _tracker(settings, out.name, config)

    def metrics(self, step: int, values: Mapping[str, float | int]) -> None:
        """Numbers of one step (from 1)."""
        _append(self._out / "metrics.jsonl", {"step": step, **values})
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)
        if self._tracker is not None:
            self._tracker.log(dict(values), step=step)

    def sample(self, step: int, values: Values) -> None:
        """What the model wrote after `step` steps."""
        _append(self._out / "samples.jsonl", {"step": step, **values})

    def close(self) -> None:
        """Write out what is still held back."""
        if self._board is not None:
            self._board.close()
        if self._tracker is not None:
            self._tracker.finish()


def _append(path: Path, values: Mapping[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(values, ensure_ascii=False) + "\n")


def _forget(path: Path, step: int) -> None:
    """Drop lines of later steps, and one that was cut short."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        try:
            if json.loads(line)["step"] <= step and line.endswith("\n"):
                kept.append(line)
        except ValueError:
            continue
    write_atomic(path, "".join(kept))


def _tensorboard(folder: Path, step: int) -> Any:
    if importlib.util.find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=step + 1)


def _tracker(settings: KeepSettings, name: str, config: dict[str, Any]) -> Any:
    try:
        module = importlib.import_module(settings.tracker)
    except ImportError as error:
        raise UnavailableError(
            f"keep.tracker = {settings.tracker!r}: the package is not installed. Run: pip install {settings.tracker}"
        ) from error
    module.init(project=settings.project, name=name, config=config)
    return module
