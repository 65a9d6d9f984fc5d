"""`atif`: a folder with a document of ATIF (Agent Trajectory Interchange Format) for each episode, beside `media/`.

Paths of media are relative to the document. Documents of other agents are read too; see `atif_foreign.py`. Reading and
writing go through the models of the package `atif`, so no document breaks the format's rules.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from saccade.errors import RecordError, SaccadeError
from saccade.media.store import MediaStore
from saccade.record.base import clean_text
from saccade.record.content import ImagePart, VideoPart
from saccade.record.trajectory import Trajectory
from saccade.sft.curate.stage import Media
from saccade.sft.formats.atif_content import load_atif
from saccade.sft.formats.atif_foreign import left_out, media_paths, read_foreign
from saccade.sft.formats.atif_read import is_own, own_media, read_own
from saccade.sft.formats.atif_write import write_document
from saccade.sft.formats.base import ConversionOptions, Refused, TrajectorySource
from saccade.sft.formats.document_files import write_documents
from saccade.sft.formats.media_refs import MediaIn, MediaOut

if TYPE_CHECKING:
    import atif

_log = logging.getLogger(__name__)
_VERSION = re.compile(r"ATIF-v1\.[0-8]")
_HARBOR = "trajectory.json"
"""How Harbor calls the document of a trial, somewhere below the trial's folder."""

_MADE_ANEW = frozenset({"session_id", "final_metrics", "steps"})
"""Fields of a document that writing makes of the others; steps are compared one by one."""


@dataclass(frozen=True, slots=True)
class AtifFormat:
    """The format; see the module's head."""

    def read(self, path: Path, options: ConversionOptions, store: MediaStore) -> TrajectorySource:
        """See `Format`. Each document is a row, in the order of the files' names."""
        models = load_atif()
        return TrajectorySource(_read(_documents(path), models, options, store), store)

    def write(
        self, trajectories: Iterable[Trajectory], media: Media, folder: Path, options: ConversionOptions
    ) -> list[Refused]:
        models = load_atif()
        out = MediaOut(media, folder, options.root)
        return write_documents(trajectories, folder, lambda each: checked_document(each, out, models), indent=2)


def checked_document(trajectory: Trajectory, out: MediaOut, models: Any) -> dict[str, Any]:
    """The document of a trajectory.

    Raises:
        RecordError: ATIF's models refuse it, or reading it would not give the trajectory back.
    """
    parts = {part.sha256: part for part in trajectory.media()}
    paths = {sha256: out.path(part) for sha256, part in parts.items()}
    document = _valid(write_document(trajectory, paths), models)
    written: dict[str, Any] = document.to_json_dict()
    if read_own(_valid(written, models), {paths[sha256]: part for sha256, part in parts.items()}) != trajectory:
        raise RecordError("reading the document would not give it back")
    return written


def _read(
    files: list[Path], models: Any, options: ConversionOptions, store: MediaStore
) -> Iterator[Trajectory | Refused]:
    for number, file in enumerate(files):
        try:
            document = _valid(json.loads(file.read_text(encoding="utf-8-sig")), models)
            yield _trajectory(document, MediaIn(options.images or file.parent, store), file)
        except (SaccadeError, OSError, ValueError, KeyError, TypeError) as error:
            reason = clean_text(str(error)) or type(error).__name__
            yield Refused(row=number, id=clean_text(file.name), reason=reason)


def _trajectory(document: atif.Trajectory, media: MediaIn, file: Path) -> Trajectory:
    if is_own(document):
        parts = {path: _checked(path, part, media) for path, part in own_media(document)}
        trajectory = read_own(document, parts)
        unread = _added(document, write_document(trajectory, {part.sha256: path for path, part in parts.items()}))
    else:
        trajectory = read_foreign(document, {path: media.image(path) for path in media_paths(document)}, file.stem)
        unread = left_out(document)
    if unread:
        _log.warning("%s: Saccade has no place for %s; left out", file, ", ".join(unread))
    return trajectory


def _added(document: atif.Trajectory, again: Mapping[str, Any]) -> list[str]:
    """Where a document of Saccade's holds what others added to it, and reading does not keep."""
    now, then = document.to_json_dict(), dict(again)
    names = [f"document.{name}" for name in now if name not in _MADE_ANEW and now[name] != then.get(name)]
    for mine, theirs in zip(now["steps"], then["steps"], strict=True):
        names += [f"step {mine['step_id']}.{name}" for name in mine if mine[name] != theirs.get(name)]
    return names


def _checked(path: str, recorded: Mapping[str, Any], media: MediaIn) -> ImagePart | VideoPart:
    """What lies at the path; it must be what was written."""
    part = media.video(path) if recorded.get("kind") == "video" else media.image(path)
    if part.sha256 != recorded.get("sha256"):
        raise RecordError(f"{path} is not the file that was written: its sha256 is another")
    return part


def _documents(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = sorted(path.glob("*.json")) or sorted(path.rglob(_HARBOR))
    if not files:
        raise RecordError(f"{path} holds no ATIF document: no *.json, and no {_HARBOR} in a folder below it.")
    return files


def _valid(row: object, models: Any) -> atif.Trajectory:
    """The document of a JSON object. Raises `RecordError` for what is none, with every field that is wrong."""
    try:
        document: atif.Trajectory = models.Trajectory.model_validate(row)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors(include_url=False)]
        raise RecordError("it is no ATIF document: " + "; ".join(wrong)) from error
    if not _VERSION.fullmatch(document.schema_version):
        raise RecordError(f"its schema_version is {document.schema_version!r}; ATIF-v1.0 to ATIF-v1.8 are read")
    return document


FORMAT = AtifFormat()
