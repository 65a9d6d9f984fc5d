"""The folder in which episodes are kept: `trajectories.jsonl`, which only grows, and the media store `media/`.

`unfinished/` holds what is being played (`saccade.episode.run_folder`).

A trajectory is on the disk, whole, when `append` returns. One process at a time may write to a run folder. Opening one
reads the ids of its trajectories and nothing else, so that a long run is continued at once.
"""

from __future__ import annotations

import logging
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from pydantic import BaseModel, NonNegativeInt

from saccade.core.disk import check_files, check_folder, check_there, disk_words
from saccade.core.settings import Settings, beyond_addresses, differences, load_saved, save_settings, settings_toml
from saccade.episode.flow import Plan
from saccade.errors import RecordError, SettingsError
from saccade.media.store import MediaStore
from saccade.record.codec import append_lines, loads, read_ids, recover_lines
from saccade.record.content import SCHEMA_VERSION, Record, SchemaVersion
from saccade.record.execution import Execution
from saccade.record.trajectory import Trajectory, Turn

_log = logging.getLogger(__name__)

TRAJECTORIES = "trajectories.jsonl"
MEDIA = "media"
UNFINISHED = "unfinished"
"""Folder of the journals of episodes that have not ended."""


def trajectories_of(run: Path) -> Path:
    """Return the file of a run's trajectories. Raises `SettingsError` where there is none; says what is there."""
    file = run / TRAJECTORIES
    if not run.exists():
        raise SettingsError(f"{run} is no run folder: it is not there. Name the folder of a run.")
    if not file.is_file():
        raise SettingsError(f"{run} is no run folder: it has no {TRAJECTORIES}. Name the folder of a run.")
    return file


class RunFolder:
    """A run folder, made when first written to."""

    def __init__(self, root: Path) -> None:
        """Reads what is there, so a folder that cannot be used is refused before any work is done.

        Raises `RecordError`: `root` is a file, or its trajectories cannot be read.
        """
        check_folder(root)
        self.root = root
        self.store = MediaStore(root / MEDIA)
        self._ids = set(read_ids(self.path, Trajectory)) if self.path.exists() else set()
        self._rollouts = Counter(name.rpartition("#")[0] for name in self._ids)

    def __contains__(self, trajectory_id: str) -> bool:
        return trajectory_id in self._ids

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(self._ids)

    @property
    def path(self) -> Path:
        return self.root / TRAJECTORIES

    def next_rollout(self, task_id: str) -> int:
        """Return a number that no trajectory of this task has here, finished or not."""
        number = self._rollouts[task_id]
        while f"{task_id}#{number}" in self._ids or self.journal_of(f"{task_id}#{number}").exists():
            number += 1
        return number

    def journal_of(self, trajectory_id: str) -> Path:
        """Return where that episode is kept while it is played."""
        return self.root / UNFINISHED / f"{quote(trajectory_id, safe='#')}.jsonl"

    def append(self, *trajectories: Trajectory) -> None:
        """Keep the trajectories, in place of their journals; their media must lie in `store` already.

        Raises `RecordError`: the folder was deleted while this process held it (`saccade.core.disk.one_writer`).
        """
        check_there(self.root)
        self.root.mkdir(parents=True, exist_ok=True)
        append_lines(self.path, trajectories)
        self._ids.update(item.id for item in trajectories)
        self._rollouts.update(item.task.id for item in trajectories)
        if (self.root / UNFINISHED).is_dir():
            for item in trajectories:
                self.journal_of(item.id).unlink(missing_ok=True)

    def keep_settings(self, settings: BaseModel) -> Path:
        """Return the file that holds `settings`: `settings.toml`, or where that holds others `settings-2.toml`, and so
        on.

        Each trajectory holds its own, too, as `provenance.settings`.
        """
        text, number = settings_toml(settings), 1
        file = self.root / "settings.toml"
        while file.exists() and file.read_text(encoding="utf-8") != text:
            number += 1
            file = self.root / f"settings-{number}.toml"
        if not file.exists():
            save_settings(settings, file)
        return file


def mended(root: Path) -> RunFolder:
    """Return the run folder, after a last line that a kill cut short was cut off.

    The journal of that episode is still there. Raises `RecordError` as `RunFolder` does.
    """
    if (root / TRAJECTORIES).is_file():
        recover_lines(root / TRAJECTORIES)
        note_empty(root / TRAJECTORIES)
    return RunFolder(root)


def note_empty(file: Path) -> None:
    """Warn of a file of trajectories that holds none."""
    if not file.stat().st_size:
        _log.warning("%s is empty: no episode is in it. If some were, the file was cut and they are gone.", file)


# An episode while it is played: each turn is on the disk before anything else is done, so a kill loses one call.
#
#     trajectory = await run_kept(plan, model, sandbox, folder)       # of `saccade.episode.drive`
#
# `unfinished/ID.jsonl` of a run folder holds the trajectory without turns, then turns with their numbers; a later line
# of a number stands in place of the earlier one. An unfinished episode is continued by the same plan: what the model
# wrote is not asked for again, its code is run again to rebuild the state of the sandbox, and the model continues from
# what it saw the first time. Code whose outcome depends on chance or on the clock may leave another state; where its
# output shows that, the trajectory's `stop_detail` says so. The limit of wall time begins anew.


_COMPARED = ("model", "dialect", "sampling", "limits", "saccade")
"""Parts of the provenance by which a person knows an episode."""


class NumberedTurn(Record):
    """A turn of an unfinished episode."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    number: NonNegativeInt
    turn: Turn


class EpisodeJournal:
    """The record of one episode that is being played."""

    def __init__(self, file: Path, head: Trajectory, earlier: Sequence[Turn] = (), says: Sequence[str] = ()) -> None:
        """Writes nothing by itself. `earlier` are the turns that are in the file already."""
        self.earlier = tuple(earlier)
        self.says = tuple(says)
        """What a person should know of other unfinished episodes of the folder."""
        self.problem = ""
        """Why nothing is written any more; empty while all is well."""
        self._file = file
        self._head = head
        self._kept = dict(enumerate(earlier))
        self._differing: list[int] = []

    def note(self, turns: Sequence[Turn]) -> None:
        """Keep what is new of the `turns` so far. A disk that cannot be written does not end the episode."""
        number = len(turns) - 1  # each effect has one turn more, or more in its last one
        lines = [] if not turns or self._holds(number, turns[-1]) else [NumberedTurn(number=number, turn=turns[-1])]
        if self.problem or (turns and not lines):
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            append_lines(self._file, [*([] if self._file.exists() else [self._head]), *lines])
        except OSError as error:
            self.problem = f"The turns cannot be kept while the episode is played: {disk_words(error)}"
        self._kept.update((line.number, line.turn) for line in lines)

    def before(self, number: int) -> Turn | None:
        """Return the turn of that number (from 0) as it went before.

        None where the episode continues with new turns.
        """
        return self.earlier[number] if number < len(self.earlier) else None

    def compare(self, number: int, before: Execution, now: Execution) -> None:
        """Notice that a call which was run again gave something else."""
        if _outcome(before) != _outcome(now):
            self._differing.append(number + 1)

    def with_earlier(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory with the seconds of what was before it was continued, and a word about it."""
        if not self.earlier:
            return trajectory
        note = f"Continued after turn {len(self.earlier)}; its earlier calls were run again"
        turns = ", ".join(map(str, self._differing))
        note += f", and gave another output in turn {turns}." if turns else ", with the same output."
        before = sum(turn.model_seconds + turn.execution_seconds for turn in self.earlier)
        detail = f"{trajectory.stop_detail} {note}".lstrip()
        return trajectory.model_copy(update={"stop_detail": detail, "seconds": trajectory.seconds + before})

    def _holds(self, number: int, turn: Turn) -> bool:
        known = self._kept.get(number)
        # While earlier calls run again, what is in the file says more than what is known.
        return known == turn or (known is not None and known.execution is not None and turn.execution is None)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An episode that was broken off without an end of its own."""

    file: Path
    trajectory: Trajectory
    """With the turns so far; its `stop` is None."""


def open_journal(folder: RunFolder, plan: Plan, head: Trajectory) -> tuple[Plan, EpisodeJournal]:
    """Return the plan of the unfinished episode in `folder` that `plan` continues, or `plan` itself; and its journal.

    An episode is continued by a plan of the same task, dialect, limits, sampling, settings, model and version of
    Saccade; others stay as they are.
    """
    said: list[str] = []
    for item in unfinished(folder.root, said.append):
        trajectory = item.trajectory
        if trajectory.id in folder or trajectory.task.id != head.task.id:
            continue
        if _same(trajectory, head):
            recover_lines(item.file)
            same = replace(plan, rollout=trajectory.rollout)
            return same, EpisodeJournal(item.file, trajectory.model_copy(update={"turns": ()}), trajectory.turns, said)
        said.append(
            f"The unfinished episode {trajectory.id} is not continued, for it was begun with another "
            f"{_what_differs(trajectory, head)}; it stays in {item.file}, and the same command continues it."
        )
    return plan, EpisodeJournal(folder.journal_of(plan.id), head, says=said)


def again_text(turns: int) -> str:
    """Return what a person reads before an episode is continued."""
    return (
        f"Continuing an episode that was broken off after turn {turns}: what the model wrote is not asked for again, "
        "and its code is run again to rebuild the state of the sandbox."
    )


def journals(root: Path) -> list[Path]:
    """Return the files of the unfinished episodes of a run folder."""
    return sorted((root / UNFINISHED).glob("*.jsonl"))


def unfinished(root: Path, unread: Callable[[str], None] = lambda said: None) -> Iterator[Unfinished]:
    """Yield the unfinished episodes of a run folder, each without a last line that was cut short.

    Args:
        root: the run folder.
        unread: hears of each file that cannot be read and is left out.
    """
    for file in journals(root):
        lines = file.read_bytes().splitlines(keepends=True)
        turns: dict[int, Turn] = {}
        try:
            head = loads(lines[0], Trajectory)
            for line in lines[1:]:
                if line.endswith(b"\n"):
                    read = loads(line, NumberedTurn)
                    turns[read.number] = read.turn
        except (RecordError, IndexError) as error:
            why = str(error).partition("\n")[0] if lines else "it is empty"
            unread(f"The unfinished episode in {file} cannot be read and is left out: {why}")
            continue
        yield Unfinished(file, head.model_copy(update={"turns": tuple(turn for _, turn in sorted(turns.items()))}))


def _same(stored: Trajectory, head: Trajectory) -> bool:
    return all(getattr(stored, name) == getattr(head, name) for name in ("task", "group", "provenance", "prompt"))


def _what_differs(stored: Trajectory, head: Trajectory) -> str:
    before, now = stored.provenance, head.provenance
    names = [name for name in _COMPARED if getattr(before, name) != getattr(now, name)]
    return " and ".join(names) or ("setting" if before != now else "prompt")


def _outcome(execution: Execution) -> tuple[object, ...]:
    pictures = tuple(picture.image.sha256 for picture in execution.pictures)
    return execution.status, execution.stdout, execution.value, execution.traceback, pictures


SETTINGS = "settings.toml"
_KEPT = (TRAJECTORIES, UNFINISHED, "tasks.jsonl")
"""Files and folders that exist once an episode was begun, or a picture was asked about."""
REJECTED = "rejected.jsonl"
"""File of a run of synthesis with the jobs whose trajectories were not wanted; they are not tried again."""

S = TypeVar("S", bound=Settings)


def continued(
    root: Path, settings: Settings, *, may_differ: Collection[str] = (), kept: Collection[str] = ()
) -> RunFolder:
    """Return the folder of a run, new or to be continued, with `settings` saved in it; a torn last line is cut off.

    A run that kept nothing may be begun anew with any settings; `kept` names further files and folders that count.

    Raises `SettingsError`: it was made with other settings (names what differs but for `may_differ`), or it holds
    another command's run, or a file of the user's code is another now; `RecordError`: its trajectories cannot be read.
    """
    check_continued(root, settings, may_differ=may_differ, kept=kept)
    folder = mended(root)
    save_settings(settings, root / SETTINGS)
    return folder


def check_continued(
    root: Path, settings: Settings, *, may_differ: Collection[str] = (), kept: Collection[str] = ()
) -> None:
    """Raises `SettingsError` as `continued` does, and changes nothing."""
    saved, lines = root / SETTINGS, root / TRAJECTORIES
    if saved.exists() and (not came_to_nothing(root) or any((root / name).exists() for name in kept)):
        _check(root, saved_settings(type(settings), root), settings, may_differ)
    elif lines.exists():
        raise SettingsError(f"{root} holds trajectories of another command. Name a folder of its own for this run.")


def came_to_nothing(root: Path) -> bool:
    """Tell whether a run was begun in `root` and nothing of it was kept, so that any other may begin there."""
    return kept_nothing(root) and not (root / REJECTED).exists()


def kept_nothing(root: Path) -> bool:
    """Tell whether a run was begun in `root` and holds no episode, also where some were played and rejected."""
    return (root / SETTINGS).exists() and not any((root / name).exists() for name in _KEPT)


class OtherCommandError(SettingsError):
    """The settings in a run folder are those of another command."""


def saved_settings(kind: type[S], root: Path) -> S:
    """Return the settings of class `kind` in the run folder `root`. Raises `SettingsError` if they are those of another
    command, or cannot be read.
    """
    file = root / SETTINGS
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        missing = {name for name, field in kind.model_fields.items() if field.is_required()} - data.keys()
    except (OSError, ValueError):
        missing = set()  # what is wrong with the file is said below
    if missing:
        raise OtherCommandError(
            f"{root} holds the run of another command: its {SETTINGS} does not say {' and '.join(sorted(missing))}. "
            "Name another folder."
        )
    return load_saved(kind, file)


def _check(root: Path, before: Settings, now: Settings, may_differ: Collection[str]) -> None:
    changed = [item for item in differences(before, now) if item.name not in may_differ]
    if changed := beyond_addresses(changed, root):
        listed = "\n".join(f"  {item}" for item in changed)
        raise SettingsError(
            f"{root} was made with other settings:\n{listed}\nUse the same ones to continue it, or another folder."
        )
    check_files(root / SETTINGS)
