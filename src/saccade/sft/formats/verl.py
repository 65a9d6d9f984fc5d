"""`verl`: tasks in parquet, as verl, DeepEyes and CodeDance read them for reinforcement learning.

The columns of `task_rows.py`, and images [{bytes, path}], videos [{video}]. Pictures are in the file, videos lie beside
it under `media/`. PyVision-RL's own loader reads JSON: `pyvision-rl` writes that, and its `mm_hint` is kept here.
CodeDance's own fork also wants the picture once more under `extra_info.tools_kwargs`, which is read over and not
written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from saccade.record.content import ImagePart
from saccade.record.trajectory import Trajectory
from saccade.sft.formats.conversation import flatten
from saccade.sft.formats.media_refs import MediaOut
from saccade.sft.formats.row_files import Row, load_pyarrow, write_parquet
from saccade.sft.formats.row_format import RowFormat
from saccade.sft.formats.task_rows import TaskRowCodec, hint_of, task_fields


@dataclass(frozen=True, slots=True)
class VerlCodec(TaskRowCodec):
    """The codec; see the module's head."""

    def encode(self, trajectory: Trajectory, out: MediaOut) -> Row:
        parts = self.media(trajectory)
        images = [part for part in parts if isinstance(part, ImagePart)]
        videos = [part for part in parts if not isinstance(part, ImagePart)]
        return {
            **task_fields(trajectory, flatten(trajectory).lines, hint_of(trajectory, parts, out)),
            "images": [{"bytes": out.data(part), "path": None} for part in images],
            "videos": [{"video": out.path(part)} for part in videos],
        }


def _save(file: Path, rows: Iterable[Row]) -> None:
    """Write the rows as parquet, each with its number."""
    pyarrow, _ = load_pyarrow()
    text, struct = pyarrow.string(), pyarrow.struct
    extra = dict.fromkeys(("id", "task", "question", "answer", "dialect", "split", "record"), text)
    schema = pyarrow.schema(
        {
            "data_source": text,
            "prompt": pyarrow.list_(struct({"role": text, "content": text})),
            "images": pyarrow.list_(struct({"bytes": pyarrow.binary(), "path": text})),
            "videos": pyarrow.list_(struct({"video": text})),
            "env_name": text,
            "ability": text,
            "reward_model": struct({"style": text, "ground_truth": text}),
            "extra_info": struct({"index": pyarrow.int64(), **extra}),
            "mm_hint": struct({"hint_path": text, "hint_type": text}),
        }
    )
    write_parquet(file, numbered(rows), schema)


def numbered(rows: Iterable[Row]) -> Iterable[Row]:
    """The rows with their numbers as `extra_info.index`."""
    return ({**row, "extra_info": {**row["extra_info"], "index": number}} for number, row in enumerate(rows))


FORMAT = RowFormat(VerlCodec(), file="data.parquet", save=_save)
