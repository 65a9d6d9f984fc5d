r"""`pyvision`: a list of messages for each episode, as PyVision dumps it (`test_messages.json`).

    [{"role": "user", "content": [{"type": "text", "text": "<image_clue_0>"},
                                  {"type": "image_url", "image_url": {"url": "data:image/png;base64,…"}}, …]},
     {"role": "assistant", "content": [{"type": "text", "text": "…</code>\n"}]}, …]

One file for each episode, pictures inline. A line break follows what the model wrote where it ends in a closing code
tag, as there. A list says nothing of its task but the question: id, gold answer and source are lost. What else is held
is said in `conversation.py`. Read are a file or a folder of files, in the dialect `pyvision` unless another is given,
and also lists in which the closing tag came twice, which PyVision's code writes where a server keeps it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from saccade.errors import RecordError, SaccadeError
from saccade.media.store import MediaStore
from saccade.record.content import ImagePart, Role, clean_text, escape_places, unescape_places
from saccade.record.trajectory import Trajectory
from saccade.training.sft.curate.pipeline import Media
from saccade.training.sft.formats.base import ConversionOptions, Refused, TrajectorySource
from saccade.training.sft.formats.chat import ENVIRONMENTS, TaskRowCodec, hint_of, task_fields
from saccade.training.sft.formats.conversation import (
    IMAGE,
    Conversation,
    ConversationFacts,
    RoleMessage,
    RowFormat,
    difference,
    flatten,
    held,
    unflatten,
)
from saccade.training.sft.formats.files import MediaIn, MediaOut, Row, load_pyarrow, write_documents, write_parquet

_DIALECT: Final = "pyvision"
_ROLES: Final = frozenset({"system", "user", "assistant", "tool"})
_CODE_END = re.compile(r"</code>\n*\Z")
_CODE_END_TWICE = re.compile(r"</code>\s*</code>(?=\n*\Z)")


@dataclass(frozen=True, slots=True)
class PyVisionFormat:
    """The format; see the module's head."""

    def read(self, path: Path, options: ConversionOptions, store: MediaStore) -> TrajectorySource:
        """See `Format`. Each file is a row, in the order of the files' names."""
        files = [path] if path.is_file() else sorted(path.glob("*.json"))
        if not files:
            raise RecordError(f"{path} is neither a list of messages nor a folder with some (*.json).")
        return TrajectorySource(_read(files, options, store), store)

    def write(
        self, trajectories: Iterable[Trajectory], media: Media, folder: Path, options: ConversionOptions
    ) -> list[Refused]:
        out = MediaOut(media, folder)
        return write_documents(trajectories, folder, lambda each: checked_messages(each, out), indent=4)


def checked_messages(trajectory: Trajectory, out: MediaOut) -> list[dict[str, Any]]:
    """Return the messages of a trajectory.

    Raises `RecordError`: it shows a video, or reading the list would not give its turns back.
    """
    kept = held(trajectory)
    talk = flatten(kept)
    if not all(isinstance(part, ImagePart) for part in talk.media):
        raise RecordError("it shows a video as such, for which PyVision's lists have no form")
    urls = iter([f"data:{part.mime};base64,{out.base64(part)}" for part in talk.media])
    lines = [RoleMessage(line.role, _closed(line)) for line in talk.lines]
    messages = [
        {"role": line.role, "content": [_part(piece, urls) for piece in re.split(f"({IMAGE})", line.text) if piece]}
        for line in lines
    ]
    about = ConversationFacts(kept.id, kept.provenance.dialect)
    again = unflatten(Conversation(about, tuple(_opened(line) for line in lines), talk.media))
    again = again.model_copy(update={"task": kept.task})
    if again != kept:
        raise RecordError(f"reading the list would not give it back: {difference(kept, again)}")
    return messages


def _part(piece: str, urls: Iterator[str]) -> dict[str, Any]:
    if piece == IMAGE:
        return {"type": "image_url", "image_url": {"url": next(urls)}}
    return {"type": "text", "text": unescape_places(piece)}


def _closed(line: RoleMessage) -> str:
    return line.text + "\n" if line.role == "assistant" and _CODE_END.search(line.text) else line.text


def _opened(line: RoleMessage) -> RoleMessage:
    if line.role != "assistant" or not _CODE_END.search(line.text):
        return line
    return RoleMessage(line.role, line.text.removesuffix("\n"))


def _read(files: Sequence[Path], options: ConversionOptions, store: MediaStore) -> Iterator[Trajectory | Refused]:
    for number, file in enumerate(files):
        name = clean_text(file.stem)
        try:
            said = json.loads(file.read_text(encoding="utf-8-sig"))
            media = MediaIn(options.images or file.parent, store)
            parts: list[ImagePart] = []
            lines = tuple(_line(at, message, media, parts) for at, message in enumerate(_listed(said)))
            about = ConversationFacts(name, options.dialect or _DIALECT)
            yield unflatten(Conversation(about, lines, tuple(parts)))
        except (SaccadeError, OSError, ValueError, RecursionError) as error:
            yield Refused(row=number, id=name, reason=clean_text(str(error)) or type(error).__name__)


def _listed(said: object) -> list[Any]:
    if not isinstance(said, list) or not said:
        raise RecordError("it is no list of messages")
    return said


def _line(number: int, message: object, media: MediaIn, parts: list[ImagePart]) -> RoleMessage:
    role: object = message.get("role") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(role, str) or role not in _ROLES:
        raise RecordError(f"message {number} is no object with the role system, user, assistant or tool")
    content = message.get("content")
    pieces: list[str] = []
    for item in content if isinstance(content, list) else [{"type": "text", "text": content}]:
        kind, said = (item.get("type"), item.get("text")) if isinstance(item, dict) else (None, None)
        if kind == "text" and isinstance(said, str):
            pieces.append(escape_places(said))
        elif kind == "image_url":
            parts.append(media.image(_url(number, item.get("image_url"))))
            pieces.append(IMAGE)
        else:
            raise RecordError(f"message {number} holds what is neither a text nor a picture")
    text = "".join(pieces)
    if role == "assistant":
        text = _CODE_END_TWICE.sub("</code>", text)
    return _opened(RoleMessage(cast(Role, role), text))


def _url(number: int, named: object) -> str:
    url = named.get("url") if isinstance(named, dict) else named
    if not isinstance(url, str) or re.match(r"https?://", url):
        raise RecordError(f"a picture of message {number} is not in the list itself, and nothing is fetched")
    return url


FORMAT = PyVisionFormat()


# `verl`: tasks in parquet, as verl, DeepEyes and CodeDance read them for reinforcement learning.
#
# The columns of `task_rows.py`, and images [{bytes, path}], videos [{video}]. Pictures are in the file, videos lie
# next to it under `media/`. PyVision-RL's own loader reads JSON: `pyvision-rl` writes that, and its `mm_hint` is kept
# here. CodeDance's own fork also wants the picture once more under `extra_info.tools_kwargs`, which is read over and
# not written.


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
    """Return the rows with their numbers as `extra_info.index`."""
    return ({**row, "extra_info": {**row["extra_info"], "index": number}} for number, row in enumerate(rows))


VERL_FORMAT = RowFormat(VerlCodec(), file="data.parquet", save=_save)

# `pyvision-rl`: tasks in a JSON list, as the loader of PyVision-RL reads them for reinforcement learning.
#
# The fields of `task_rows.py`. The loader opens what `mm_hint` names, one picture or one video for each row, puts it in
# the place of `<image>` in the prompt and its tags around it; so these tags are left out here, and put back when rows
# are read. Paths are relative to the folder of the rows; write absolute ones with `--root`, since the loader resolves
# none.

_TAGGED = re.compile(r"<image_clue_\d+>(<image>)</image_clue_\d+>")


@dataclass(frozen=True, slots=True)
class PyVisionRLCodec(TaskRowCodec):
    """The codec; see the module's head."""

    def encode(self, trajectory: Trajectory, out: MediaOut) -> Row:
        """Return the row.

        Raises `RecordError` for another dialect, and for a task without exactly one picture or video.
        """
        dialect, parts = trajectory.provenance.dialect, self.media(trajectory)
        if not (dialect.startswith("pyvision-rl") and dialect.partition("@")[0] in ENVIRONMENTS):
            raise RecordError(f"it is of dialect {dialect}, and PyVision-RL's loader takes its own alone")
        if len(parts) != 1:
            raise RecordError(
                f"PyVision-RL's loader takes one picture or one video, and it has {len(parts)} pictures and videos"
            )
        lines = [replace(line, text=_TAGGED.sub(r"\1", line.text)) for line in flatten(trajectory).lines]
        return task_fields(trajectory, lines, hint_of(trajectory, parts, out))


def _save_pyvision_rl(file: Path, rows: Iterable[Row]) -> None:
    """Write the rows as a JSON list, one in a line."""
    with file.open("w", encoding="utf-8", newline="\n") as out:
        out.write("[")
        for number, row in enumerate(numbered(rows)):
            out.write(("\n" if number == 0 else ",\n") + json.dumps(row, ensure_ascii=False))
        out.write("\n]\n")


PYVISION_RL_FORMAT = RowFormat(PyVisionRLCodec(), file="data.json", save=_save_pyvision_rl)
