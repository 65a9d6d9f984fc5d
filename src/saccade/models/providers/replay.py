"""A stored trajectory, played again."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from saccade.errors import RecordError
from saccade.models.provider import Provider
from saccade.models.replay import ReplayModel, replay_from_file
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory


def _model(provider: Provider, name: str) -> ReplayModel:
    return replay_from_file(Path(name))


def _recorded(name: str) -> str:
    try:
        return next((item.provenance.dialect for item in islice(read_lines(Path(name), Trajectory), 1)), "")
    except (OSError, RecordError):
        return ""  # making the model says what is wrong with the file


REPLAY = Provider(
    name="replay",
    description="A stored trajectory, played again, as in `replay:FILE.jsonl`.",
    make=_model,
    samples=False,
    stop_strings="as recorded",
    token_ids=True,
    continues=True,
    hosted_code=True,
    learned_dialect=_recorded,
)
