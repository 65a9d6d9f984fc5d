"""`verl`: tasks in parquet, as verl, DeepEyes, CodeDance and PyVision-RL read them for reinforcement learning.

    data_source, prompt [{role, content with <image>}], images [{bytes, path}], env_name, ability,
    reward_model {style, ground_truth}, extra_info {index, id, task, question, answer, dialect, split}

A row holds a task and its prompt, and no turns: of a trajectory are held its id, dialect and prompt, and of its task
what `conversation.py` says and the split. `style` is `model`, `ability` empty; `env_name` is the one under which the
released trainers know the dialect, where they do. CodeDance's own fork also wants the picture once more under
`extra_info.tools_kwargs`, which is read over and not written. A task with a video is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.errors import RecordError
from saccade.record.base import clean_text
from saccade.record.content import ImagePart
from saccade.record.trajectory import Trajectory
from saccade.sft.formats.conversation import Conversation, ConversationFacts, flatten, held, unflatten
from saccade.sft.formats.media_refs import MediaIn, MediaOut, listed
from saccade.sft.formats.row_files import Row, load_pyarrow, write_parquet
from saccade.sft.formats.row_format import ConversationCodec, Parts, RowFormat
from saccade.sft.formats.sharegpt import read_lines

_ENVIRONMENTS = {
    "deepeyes": "visual_toolbox_v2",
    "pyvision-rl-image": "pyvision_gym_w_image_hint",
    "pyvision-rl-image-no-hint": "pyvision_gym_wo_image_hint",
    "pyvision-rl-video": "pyvision_gym_wo_video_hint",
}


@dataclass(frozen=True, slots=True)
class VerlCodec(ConversationCodec):
    """The codec; see the module's head."""

    def labels(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """They stand under `extra_info`, and the gold answer under `reward_model`."""
        extra = _mapping(row, "extra_info")
        source = row.get("data_source")
        index = extra.get("index")
        return {
            **extra,
            "id": extra.get("id") or (None if index is None else f"{source}-{index}"),
            "answer": _mapping(row, "reward_model").get("ground_truth", extra.get("answer")),
            "source_dataset": source,
        }

    def held(self, trajectory: Trajectory) -> Trajectory:
        """The prompt and the task."""
        kept = held(trajectory.model_copy(update={"turns": ()}))
        return kept.model_copy(update={"task": kept.task.model_copy(update={"split": trajectory.task.split})})

    def encode(self, trajectory: Trajectory, out: MediaOut) -> Row:
        talk, task = flatten(trajectory), trajectory.task
        if not all(isinstance(part, ImagePart) for part in talk.media):
            raise RecordError("its prompt shows a video, which this format does not hold")
        name = trajectory.provenance.dialect.partition("@")[0]
        return {
            "data_source": task.source,
            "prompt": [{"role": line.role, "content": line.text} for line in talk.lines],
            "images": [{"bytes": out.data(part), "path": None} for part in talk.media],
            "env_name": _ENVIRONMENTS.get(name, ""),
            "ability": "",
            "reward_model": {"style": "model", "ground_truth": task.answer},
            "extra_info": {
                "index": 0,
                "id": trajectory.id,
                "task": task.id,
                "question": task.question,
                "answer": task.answer,
                "dialect": trajectory.provenance.dialect,
                "split": task.split,
            },
        }

    def read_media(self, row: Mapping[str, Any], into: MediaIn) -> Parts:
        """The pictures, as bytes or by their path."""
        return tuple(into.image(named) for named in listed(row, "images"))

    def decode(self, row: Mapping[str, Any], parts: Parts, about: ConversationFacts) -> Trajectory:
        """The trajectory, without turns."""
        lines = read_lines(row.get("prompt"), ("content",), ("role",))
        if any(line.role == "assistant" for line in lines):
            raise RecordError("its prompt holds what a model wrote, and rows of this format hold tasks")
        read = unflatten(Conversation(about, lines, parts))
        split = _mapping(row, "extra_info").get("split")
        task = read.task.model_copy(update={"split": clean_text(split) if isinstance(split, str) else ""})
        return read.model_copy(update={"task": task})


def _mapping(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = row.get(name)
    return found if isinstance(found, Mapping) else {}


def _save(file: Path, rows: Iterable[Row]) -> None:
    """Write the rows as parquet, each with its number."""
    pyarrow, _ = load_pyarrow()
    text, struct = pyarrow.string(), pyarrow.struct
    extra = dict.fromkeys(("id", "task", "question", "answer", "dialect", "split"), text)
    schema = pyarrow.schema(
        {
            "data_source": text,
            "prompt": pyarrow.list_(struct({"role": text, "content": text})),
            "images": pyarrow.list_(struct({"bytes": pyarrow.binary(), "path": text})),
            "env_name": text,
            "ability": text,
            "reward_model": struct({"style": text, "ground_truth": text}),
            "extra_info": struct({"index": pyarrow.int64(), **extra}),
        }
    )
    numbered = ({**row, "extra_info": {**row["extra_info"], "index": n}} for n, row in enumerate(rows))
    write_parquet(file, numbered, schema)


FORMAT = RowFormat(VerlCodec(), file="data.parquet", save=_save)
