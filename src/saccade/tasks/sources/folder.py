"""Find the tasks in a folder: records, trajectories, files of rows, or only media.

tasks.jsonl                        records with `media/`, or rows
trajectories.jsonl                 a run folder: the tasks of its episodes
dataset_dict.json, state.json      what `datasets` saved to the disk
data/train-00000-of-00002.parquet  a snapshot of the hub; any other files of rows, here, in `data/` or one below
*.jpg, *.mp4                       only media, all with one question
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from saccade.core.registry import did_you_mean
from saccade.errors import DataError, SettingsError
from saccade.media.decode import suffixes_of
from saccade.tasks.sources.tables import ArrowTable, DelimitedTable, HeldTable, LineTable, ParquetTable, RowTable

TASKS: Final = "tasks.jsonl"
TRAJECTORIES: Final = "trajectories.jsonl"
VIDEOS: Final = suffixes_of("video")
PICTURES: Final = suffixes_of("image")
SUFFIXES: Final = (".jsonl", ".ndjson", ".json", ".tsv", ".csv", ".parquet", ".arrow")
"""Of files whose rows are read."""
_NO_ROWS = ("dataset_info.json", "dataset_infos.json", "state.json", "dataset_dict.json", "report.json", "summary.json")
_REFUSED: Final = "refused.jsonl"
"""Rows that `saccade convert` refused; ignored where there are other rows."""
_SHARD = re.compile(r"[-_.]\d+-of-\d+$")
_PLACES = ("", "data/", "*/")


@dataclass(frozen=True, slots=True)
class FolderContent:
    """The files of rows or records to read in a folder, or else its media."""

    files: tuple[Path, ...] = ()
    media: tuple[Path, ...] = ()


def files_in(folder: Path, split: str = "") -> FolderContent:
    """List the files of the folder, or of one of its splits. Raises `SettingsError` if there is nothing that could be
    read, no such split, or several of which none is named.
    """
    own = next((folder / name for name in (TASKS, TRAJECTORIES) if (folder / name).is_file()), None)
    if own is not None and not split:
        return FolderContent((own,))
    if (folder / "dataset_dict.json").is_file():
        names = _names(folder / "dataset_dict.json", "splits")
        return files_in(folder / _chosen(folder, {name: name for name in names}, split))
    if (folder / "state.json").is_file():
        data = json.loads((folder / "state.json").read_bytes()).get("_data_files", [])
        return FolderContent(tuple(folder / item["filename"] for item in data))
    groups = _grouped(folder)
    if groups:
        return FolderContent(tuple(groups[_chosen(folder, _split_names(groups), split)]))
    media = tuple(sorted(path for path in _walked(folder) if path.suffix.lower() in (*PICTURES, *VIDEOS)))
    if not media or split:
        raise SettingsError(
            f"{folder} holds no tasks: no {TASKS}, no run, no file of rows ({', '.join(SUFFIXES)}) and no pictures or "
            f"videos{f' with a split {split!r}' if split else ''}. docs/your-data.md shows what a folder may hold."
        )
    return FolderContent(media=media)


def _grouped(folder: Path) -> dict[str, list[Path]]:
    """Group the files of rows by name without the shard number, in the first place that has any."""
    for place in _PLACES:
        files = [path for path in sorted(folder.glob(f"{place}*")) if _has_rows(path)]
        files = [path for path in files if path.name != _REFUSED] or files
        if strong := [path for path in files if path.suffix.lower() != ".json"]:
            files = strong  # a JSON file next to them may be anything
        groups: dict[str, list[Path]] = {}
        for path in files:
            name = _SHARD.sub("", str(path.relative_to(folder).with_suffix("")))
            groups.setdefault(name, []).append(path)
        if groups:
            return groups
    return {}


def _has_rows(path: Path) -> bool:
    hidden = path.name.startswith(".") or path.name in _NO_ROWS or _is_annotation(path)
    return not hidden and path.suffix.lower() in SUFFIXES and path.is_file()


def _is_annotation(path: Path) -> bool:
    """Tell whether a JSON file annotates the picture of the same name, as in SA-1B."""
    return path.suffix.lower() == ".json" and any(path.with_suffix(suffix).is_file() for suffix in PICTURES)


def _split_names(groups: dict[str, list[Path]]) -> dict[str, str]:
    """Map names of splits to groups: the last word of the group's name if that is unique, else all of it."""
    words = {name: re.split(r"[^A-Za-z0-9]+", name)[-1] for name in groups}
    alone = len(set(words.values())) == len(words)
    return {words[name] if alone else name: name for name in groups}


def _chosen(folder: Path, splits: dict[str, str], split: str) -> str:
    if not split and len(splits) == 1:
        return next(iter(splits.values()))
    if split in splits:
        return splits[split]
    exact = [name for name in splits.values() if name == split]
    if exact:
        return exact[0]
    listed = ", ".join(splits)
    if not split:
        raise SettingsError(
            f"{folder} holds {len(splits)} sets of rows ({listed}), and none is named. "
            f"Name one, as in {folder}:{next(iter(splits))}, or a file."
        )
    raise SettingsError(f"{folder} has no split {split!r}. {did_you_mean(split, splits) or f'It has: {listed}.'}")


def _names(file: Path, key: str) -> Sequence[str]:
    try:
        return [str(name) for name in json.loads(file.read_bytes())[key]]
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"{file} names no {key}: {error}. Save the data set again, or name a split's folder."
        ) from error


def _walked(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def open_table(file: Path, encoding: str = "") -> RowTable:
    """Open a file as a table, by its suffix; `encoding` is that of a TSV or CSV which does not tell. Raises `DataError`
    if its suffix is unknown.
    """
    suffix = file.suffix.lower()
    if suffix in (".tsv", ".csv"):
        return DelimitedTable(file, encoding)
    kinds: dict[str, Callable[[Path], RowTable]] = {
        ".jsonl": LineTable,
        ".ndjson": LineTable,
        ".json": HeldTable,
        ".parquet": ParquetTable,
        ".arrow": ArrowTable,
    }
    if kind := kinds.get(suffix):
        return kind(file)
    todo = "Convert it to one of them."
    if suffix in (".xlsx", ".xls", ".ods"):
        todo = "Save the sheet as CSV."
    elif suffix == ".py":
        todo = f"Of code, name what is in it: {file}:NAME."
    raise DataError(f"{file} is of an unknown kind; rows are read from {', '.join(SUFFIXES)}. {todo}")
