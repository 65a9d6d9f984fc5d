"""Files of formats: rows and documents, how they name media (a path, bytes, base64, a data URL), and run folders."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from saccade.core.registry import install
from saccade.dialects.base import Dialect, load_dialect
from saccade.dialects.question import VideoNotShownError
from saccade.episode.run_folder import MEDIA, TRAJECTORIES
from saccade.errors import DataError, MediaError, RecordError, SettingsError, UnavailableError
from saccade.media.decode import suffix_of
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines, write_lines
from saccade.record.content import ImagePart, VideoPart
from saccade.record.trajectory import Provenance, Trajectory
from saccade.tasks.sources.task_set import TaskPool, open_tasks
from saccade.training.sft.curate.pipeline import Media
from saccade.training.sft.curate.run import link_into, link_or_copy
from saccade.training.sft.formats.base import ConversionOptions, Refused, TrajectorySource

FOLDER = "media"
_LONGEST_PATH = 1024
_SHORT = 80


@dataclass(frozen=True, slots=True)
class MediaIn:
    """Reads media that rows name into a store."""

    folder: Path
    """To which paths are relative."""
    store: MediaStore

    def image(self, named: object) -> ImagePart:
        """Return the picture that a row names: a path, base64, a data URL, or a mapping with the key `bytes` or `path`.

        Raises `RecordError`: it names nothing that could be a picture, a file that is not there, or no usable picture.
        """
        data = self._data(named)
        try:
            return self.store.put_bytes(data)
        except MediaError as error:
            raise RecordError(f"{_short(named)}: {error}") from error

    def video(self, named: object) -> VideoPart:
        """Return the video at the path that a row names, which may stand under `video` or `path`. Raises as `image`."""
        if isinstance(named, Mapping):
            named = next((named[key] for key in ("video", "path") if named.get(key)), None)
        if not isinstance(named, str):
            raise RecordError("a video is named otherwise than by its path")
        return self.store.put_video(self._file(named))

    def _data(self, named: object) -> bytes:
        if isinstance(named, bytes):
            return named
        if isinstance(named, Mapping):
            inner = next((named[key] for key in ("bytes", "path", "image") if named.get(key)), None)
            if inner is not None:
                return self._data(inner)
        if isinstance(named, str) and named:
            data = _decoded(named)
            return data if data is not None else self._file(named).read_bytes()
        raise RecordError(f"{_short(named)} names no picture")

    def _file(self, named: str) -> Path:
        if len(named) > _LONGEST_PATH:
            raise RecordError("a text that is no base64 and too long for a path stands in the place of a picture")
        path = Path(named.removeprefix("file://"))
        steps = [step for step in path.parts if step != path.anchor]
        tails = (Path(*steps[start:]) for start in range(len(steps)) if ".." not in steps[start:])
        for candidate in (self.folder / path, *(self.folder / tail for tail in tails)):
            if candidate.is_file():
                return candidate
        raise RecordError(f"there is no file {named} (looked in {self.folder}; name another folder with --images)")


@dataclass(frozen=True, slots=True)
class MediaOut:
    """Puts media next to a file of rows, each once, under the beginning of its sha256."""

    media: Media
    folder: Path
    root: str = ""

    def path(self, part: ImagePart | VideoPart) -> str:
        """Link the file into the folder; its path as rows write it."""
        name = f"{FOLDER}/{part.sha256[:32]}{suffix_of(part.mime)}"
        target = self.folder / name
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            link_or_copy(self.media.path(part.sha256), target)
        return f"{self.root.rstrip('/')}/{name}" if self.root else name

    def data(self, part: ImagePart | VideoPart) -> bytes:
        """Return the encoded bytes."""
        return self.media.get_bytes(part.sha256)

    def base64(self, part: ImagePart | VideoPart) -> str:
        """Return the encoded bytes as base64."""
        return base64.b64encode(self.data(part)).decode("ascii")


def _decoded(text: str) -> bytes | None:
    """Return the bytes of a data URL or of base64 text; None for a text that is neither."""
    url = text.startswith("data:")
    if not url and len(text) < 64:
        return None
    try:
        data = base64.b64decode(text.partition(",")[2] if url else text, validate=True)
    except binascii.Error as error:
        if url:
            raise MediaError("a data URL does not hold base64") from error
        return None
    return data


def _short(named: object) -> str:
    text = named if isinstance(named, str) else repr(named)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def listed(row: Mapping[str, Any], *names: str) -> list[Any]:
    """Return the list under the first of `names` that the row has; one thing alone counts as a list of it."""
    value: Any = next((row[name] for name in names if row.get(name) is not None), [])
    return list(value) if isinstance(value, list | tuple) else [value]


# Formats of one JSON file for each trajectory.


_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def write_documents(
    trajectories: Iterable[Trajectory], folder: Path, document: Callable[[Trajectory], object], indent: int
) -> list[Refused]:
    """Write what `document` makes of each into a file of its own, and give those for which it raised `RecordError`."""
    refused = []
    for number, trajectory in enumerate(trajectories):
        try:
            made = document(trajectory)
        except RecordError as error:
            refused.append(Refused(row=number, id=trajectory.id, reason=str(error)))
            continue
        name = f"{number:06d}-{_UNSAFE.sub('-', trajectory.id)[:80]}.json"
        text = json.dumps(made, ensure_ascii=False, indent=indent)
        (folder / name).write_text(text + "\n", encoding="utf-8", newline="\n")
    return refused


# Files of rows: JSON lines, a JSON list, parquet.


Row = dict[str, Any]
_GROUP = 256
"""Rows of a parquet file that are in memory together."""


def find_rows(path: Path) -> Path:
    """Return the file of rows that `path` names: itself, or the only data file in that folder.

    Raises `RecordError`: there is none, or there are several.
    """
    if path.is_file():
        return path
    named = [path / f"data{suffix}" for suffix in (".jsonl", ".json", ".parquet")]
    files = [file for file in named if file.is_file()]
    if not files and path.is_dir():
        files = sorted(file for suffix in ("jsonl", "parquet", "json") for file in path.glob(f"*.{suffix}"))
    if len(files) != 1:
        what = "there is none" if not files else "there are " + ", ".join(file.name for file in files)
        raise RecordError(f"{path} should be a file of rows or a folder with one; {what}. Name the file.")
    return files[0]


def read_rows(file: Path) -> Iterator[Row | str]:
    """Yield the rows of a file, in order; for a line that is no JSON object the reason in words.

    Raises `RecordError`: the file as a whole cannot be read; `UnavailableError`: it is parquet, and pyarrow is not
    installed.
    """
    if file.suffix == ".parquet":
        yield from _read_parquet(file)
        return
    with file.open(encoding="utf-8-sig") as lines:
        if lines.read(4096).lstrip("\ufeff \t\r\n")[:1] == "[":
            lines.seek(0)
            try:
                rows = json.loads(lines.read().lstrip("\ufeff"))
            except ValueError as error:
                raise RecordError(f"{file} begins as a JSON list, but is none: {error}") from error
            yield from (row if isinstance(row, dict) else "it is no JSON object" for row in rows)
            return
        lines.seek(0)
        for line in lines:
            if line.strip():
                yield _parsed(line)


def write_jsonl(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines."""
    with file.open("w", encoding="utf-8", newline="\n") as lines:
        lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_parquet(file: Path, rows: Iterable[Row], schema: Any) -> None:
    """Write rows with a pyarrow schema, a group of them at a time."""
    pyarrow, parquet = load_pyarrow()
    stream = iter(rows)
    with parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(stream, _GROUP)):
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))


def load_pyarrow() -> tuple[Any, Any]:
    """Return the modules `pyarrow` and `pyarrow.parquet`. Raises `UnavailableError` without them."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UnavailableError(f"parquet files need pyarrow: {install('data')}") from error
    return pyarrow, parquet


def _read_parquet(file: Path) -> Iterator[Row]:
    pyarrow, parquet = load_pyarrow()
    try:
        with parquet.ParquetFile(file) as table:
            for batch in table.iter_batches(batch_size=_GROUP):
                yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise RecordError(f"{file} cannot be read as parquet: {error}") from error


def _parsed(line: str) -> Row | str:
    try:
        row = json.loads(line)
    except ValueError as error:
        return f"it is no JSON: {error}"
    return row if isinstance(row, dict) else "it is no JSON object"


@dataclass(frozen=True, slots=True)
class RunFormat:
    """`saccade`: a run folder, `trajectories.jsonl` next to `media/`. Holds everything.

    Tasks that were not played are read too, from any source (`saccade.tasks.sources`), each as an episode that has not
    begun, in the dialect that the options name. Other formats of tasks are written from them.
    """

    def read(self, path: Path, options: ConversionOptions, store: MediaStore) -> TrajectorySource:
        """See `Format`. A run that is broken is refused as a whole, with `RecordError`."""
        file = path if path.is_file() else path / TRAJECTORIES
        if not file.is_file():
            if not options.dialect:
                raise RecordError(
                    f"{path} is no run folder: it has no {TRAJECTORIES}. Name the folder of a run; or, for tasks that "
                    "were not played, the dialect in which they are asked (--dialect)."
                )
            tasks = open_tasks([str(path)])
            return TrajectorySource(_unplayed(tasks, load_dialect(options.dialect), store), store)
        return TrajectorySource(iter(read_lines(file, Trajectory)), _Store(MediaStore(file.parent / MEDIA)))

    def write(
        self, trajectories: Iterable[Trajectory], media: Media, folder: Path, options: ConversionOptions
    ) -> list[Refused]:
        store = MediaStore(folder / MEDIA)
        write_lines(folder / TRAJECTORIES, _with_media(trajectories, media, store))
        return []


@dataclass(frozen=True, slots=True)
class _Store:
    """A store that says so when a file is asked for which it does not hold."""

    store: MediaStore

    def get_bytes(self, sha256: str) -> bytes:
        return self.store.get_bytes(sha256)

    def path(self, sha256: str) -> Path:
        if sha256 not in self.store:
            self.store.get_bytes(sha256)  # raises MissingMediaError, and says what to do
        return self.store.path(sha256)


def _unplayed(tasks: TaskPool, dialect: Dialect, store: MediaStore) -> Iterator[Trajectory | Refused]:
    """Yield the tasks, each with its prompt only; then the rows that give none, numbered after the others."""
    for number, name in enumerate(tasks.ids):
        try:
            task = tasks.make(name, store)
            prompt = dialect.open(task).messages
        except VideoNotShownError as error:  # nothing here makes frames of it
            yield Refused(row=number, id=name, reason=f"{error.fact}; a dialect for videos takes it")
        except (DataError, MediaError, RecordError, SettingsError) as error:
            yield Refused(row=number, id=name, reason=str(error))
        else:
            yield Trajectory(id=f"{name}#0", task=task, provenance=Provenance(dialect=dialect.id), prompt=prompt)
    for number, problem in enumerate(tasks.problems, len(tasks)):
        yield Refused(row=number, id=f"{problem.file}:{problem.row}", reason=str(problem))


def _with_media(trajectories: Iterable[Trajectory], media: Media, store: MediaStore) -> Iterator[Trajectory]:
    for trajectory in trajectories:
        for part in trajectory.media():
            link_into(store, media, part.sha256)
        yield trajectory


FORMAT = RunFormat()
