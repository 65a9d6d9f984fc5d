"""`pyvision-rl`: tasks in a JSON list, as the loader of PyVision-RL reads them for reinforcement learning.

The fields of `task_rows.py`. The loader opens what `mm_hint` names, one picture or one video for each row, puts it in
the place of `<image>` in the prompt and its tags around it; so these tags are left out here, and put back when rows are
read. Paths are relative to the folder of the rows; write absolute ones with `--root`, since the loader resolves none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from saccade.errors import RecordError
from saccade.record.trajectory import Trajectory
from saccade.sft.formats.conversation import flatten
from saccade.sft.formats.media_refs import MediaOut
from saccade.sft.formats.row_files import Row
from saccade.sft.formats.row_format import RowFormat
from saccade.sft.formats.task_rows import ENVIRONMENTS, TaskRowCodec, hint_of, task_fields
from saccade.sft.formats.verl import numbered

_TAGGED = re.compile(r"<image_clue_\d+>(<image>)</image_clue_\d+>")


@dataclass(frozen=True, slots=True)
class PyVisionRLCodec(TaskRowCodec):
    """The codec; see the module's head."""

    def encode(self, trajectory: Trajectory, out: MediaOut) -> Row:
        """The row. Raises `RecordError` for another dialect, and for a task without exactly one picture or video."""
        dialect, parts = trajectory.provenance.dialect, self.media(trajectory)
        if not (dialect.startswith("pyvision-rl") and dialect.partition("@")[0] in ENVIRONMENTS):
            raise RecordError(f"it is of dialect {dialect}, and PyVision-RL's loader takes its own alone")
        if len(parts) != 1:
            raise RecordError(
                f"PyVision-RL's loader takes one picture or one video, and it has {len(parts)} pictures and videos"
            )
        lines = [replace(line, text=_TAGGED.sub(r"\1", line.text)) for line in flatten(trajectory).lines]
        return task_fields(trajectory, lines, hint_of(trajectory, parts, out))


def _save(file: Path, rows: Iterable[Row]) -> None:
    """Write the rows as a JSON list, one in a line."""
    with file.open("w", encoding="utf-8", newline="\n") as out:
        out.write("[")
        for number, row in enumerate(numbered(rows)):
            out.write(("\n" if number == 0 else ",\n") + json.dumps(row, ensure_ascii=False))
        out.write("\n]\n")


FORMAT = RowFormat(PyVisionRLCodec(), file="data.json", save=_save)
