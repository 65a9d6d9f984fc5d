"""`verl`: tasks in parquet, as verl, DeepEyes and CodeDance read them; `pyvision-rl`: in JSON, as its loaders do.

    data_source, prompt [{role, content with <image>}], images [{bytes, path}], env_name, ability,
    reward_model {style, ground_truth}, extra_info {index, id, task, question, answer, dialect, split},
    mm_hint {hint_path, hint_type}

A row holds a task and its prompt, and no turns: of a trajectory are held its id, dialect and prompt, and of its task
what `conversation.py` says and the split. `style` is `model`, `ability` empty; `env_name` is the one under which the
released trainers know the dialect, where they do. CodeDance's own fork also wants the picture once more under
`extra_info.tools_kwargs`, which is read over and not written.

What the prompt does not show, such as the video that PyVision-RL's programs find in their sandbox, is `mm_hint`: one
picture or video by its path beside the rows. `pyvision-rl` has no `images`; the one medium of its rows is the hint,
shown or not. A prompt that shows a video and a task with several media that it does not show are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.errors import RecordError
from saccade.record.base import clean_text
from saccade.record.content import ImagePart
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Trajectory
from saccade.sft.formats.conversation import IMAGE, Conversation, ConversationFacts, flatten, held, unflatten
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
        """The prompt and the task. Raises `RecordError` for more than one medium that the prompt does not show."""
        kept = held(trajectory.model_copy(update={"turns": ()}))
        hidden = _hidden(trajectory)
        if len(hidden) > 1:
            raise RecordError(f"its prompt does not show {len(hidden)} of its media, and this format names one of them")
        task = with_hidden(kept.task, hidden).model_copy(update={"split": trajectory.task.split})
        return kept.model_copy(update={"task": task})

    def media(self, trajectory: Trajectory) -> Parts:
        """Those of the prompt, then the one that it does not show."""
        return (*flatten(trajectory).media, *_hidden(trajectory))

    def encode(self, trajectory: Trajectory, out: MediaOut) -> Row:
        talk, task = flatten(trajectory), trajectory.task
        if not all(isinstance(part, ImagePart) for part in talk.media):
            raise RecordError("its prompt shows a video, which this format does not hold")
        name = trajectory.provenance.dialect.partition("@")[0]
        hint = next(iter(_hidden(trajectory)), None)
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
            "mm_hint": None if hint is None else {"hint_path": out.path(hint), "hint_type": hint.kind},
        }

    def read_media(self, row: Mapping[str, Any], into: MediaIn) -> Parts:
        """The pictures, as bytes or by their path, and what the hint names unless it is one of them."""
        shown = tuple(into.image(named) for named in listed(row, "images"))
        hint = _mapping(row, "mm_hint")
        path = hint.get("hint_path")
        if not path:
            return shown
        part = into.video(path) if hint.get("hint_type") == "video" else into.image(path)
        return shown if part in shown else (*shown, part)

    def decode(self, row: Mapping[str, Any], parts: Parts, about: ConversationFacts) -> Trajectory:
        """The trajectory, without turns."""
        lines = read_lines(row.get("prompt"), ("content",), ("role",))
        if any(line.role == "assistant" for line in lines):
            raise RecordError("its prompt holds what a model wrote, and rows of this format hold tasks")
        places = sum(line.text.count(IMAGE) for line in lines)
        hidden = parts[-1:] if _mapping(row, "mm_hint").get("hint_path") and len(parts) > places else ()
        read = unflatten(Conversation(about, lines, parts[: len(parts) - len(hidden)]))
        split = _mapping(row, "extra_info").get("split")
        whole = with_hidden(read.task, hidden)
        task = whole.model_copy(update={"split": clean_text(split) if isinstance(split, str) else ""})
        return read.model_copy(update={"task": task})


@dataclass(frozen=True, slots=True)
class PyVisionCodec(VerlCodec):
    """Rows of PyVision-RL's JSON lists: one medium for each, named by the hint."""

    def encode(self, trajectory: Trajectory, out: MediaOut) -> Row:
        """As `verl`, without `images`. Raises `RecordError` for a task of no medium or of several."""
        row = VerlCodec.encode(self, trajectory, out)
        media = list(dict.fromkeys(self.media(trajectory)))
        if len(media) != 1:
            raise RecordError(f"it has {len(media)} pictures and videos, and rows of this format have one")
        del row["images"]
        return {**row, "mm_hint": {"hint_path": out.path(media[0]), "hint_type": media[0].kind}}


def with_hidden(task: Task, hidden: Parts) -> Task:
    """The task with media that its prompt does not show after those that it does."""
    more = tuple(
        NamedMedia(name=f"media_{number}", part=part) for number, part in enumerate(hidden, start=len(task.media))
    )
    return task.model_copy(update={"media": (*task.media, *more)})


def _hidden(trajectory: Trajectory) -> Parts:
    """The media of the task that the prompt does not show."""
    shown = {part.sha256 for message in trajectory.prompt for part in message.media}
    return tuple(item.part for item in trajectory.task.media if item.part.sha256 not in shown)


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
            "mm_hint": struct({"hint_path": text, "hint_type": text}),
        }
    )
    write_parquet(file, _numbered(rows), schema)


def _save_list(file: Path, rows: Iterable[Row]) -> None:
    """Write the rows as a JSON list, each with its number."""
    file.write_text(json.dumps(list(_numbered(rows)), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _numbered(rows: Iterable[Row]) -> Iterator[Row]:
    for number, row in enumerate(rows):
        yield {**row, "extra_info": {**row["extra_info"], "index": number}}


FORMAT = RowFormat(VerlCodec(), file="data.parquet", save=_save)
PYVISION_RL = RowFormat(PyVisionCodec(), file="data.json", save=_save_list)
