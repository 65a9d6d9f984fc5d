"""The folder in which episodes are kept: `trajectories.jsonl`, which only grows, and the media store `media/`.

`unfinished/` holds what is being played (`saccade.episode.run_folder`).

A trajectory is on the disk, whole, when `append` returns. One process at a time may write to a run folder. Opening one
reads the ids of its trajectories and nothing else, so that a long run is continued at once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from pydantic import BaseModel, NonNegativeInt

from saccade.core.disk import check_folder, check_there, disk_words
from saccade.core.plugins import own_version
from saccade.core.settings import save_settings, settings_toml
from saccade.episode.flow import EpisodeOutcome, Plan
from saccade.errors import RecordError
from saccade.media.store import MediaStore
from saccade.record.base import SCHEMA_VERSION, Record, SchemaVersion
from saccade.record.codec import append_lines, loads, read_ids, recover_lines
from saccade.record.execution import Execution
from saccade.record.trajectory import Provenance, Trajectory, Turn

TRAJECTORIES = "trajectories.jsonl"
MEDIA = "media"
UNFINISHED = "unfinished"
"""Folder of the journals of episodes that have not ended."""


class RunFolder:
    """A run folder, made when first written to."""

    def __init__(self, root: Path) -> None:
        """Reads what is there, so a folder that cannot be used is refused before any work is done.

        Raises:
            RecordError: `root` is a file, or its trajectories cannot be read.
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
        """Ids of the trajectories that are here."""
        return frozenset(self._ids)

    @property
    def path(self) -> Path:
        """The file of trajectories."""
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

        Raises:
            RecordError: the folder was deleted while this process held it (`saccade.core.disk.one_writer`).
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

    The journal of that episode is still there.

    Raises:
        RecordError: as `RunFolder` does.
    """
    if (root / TRAJECTORIES).is_file():
        recover_lines(root / TRAJECTORIES)
        note_empty(root / TRAJECTORIES)
    return RunFolder(root)


def note_empty(file: Path) -> None:
    """Warn of a file of trajectories that holds none."""
    if not file.stat().st_size:
        _log.warning("%s is empty: no episode is in it. If some were, the file was cut and they are gone.", file)


# An episode's outcome as the record that travels on.


_log = logging.getLogger(__name__)


def trajectory(plan: Plan, outcome: EpisodeOutcome, *, model: str, seconds: float) -> Trajectory:
    """Return the trajectory of `outcome`; `model` is the name under which it was asked, `seconds` its wall time."""
    layers = [turn.execution.layers for turn in outcome.turns if turn.execution is not None and turn.execution.layers]
    _log.info("%s: %s after %d turns and %.1f s.", plan.id, outcome.stop.value, len(outcome.turns), seconds)
    return Trajectory(
        id=plan.id,
        task=plan.task,
        group=plan.group,
        rollout=plan.rollout,
        provenance=_provenance(plan, model, outcome.model, layers[0] if layers else ()),
        prompt=outcome.prompt,
        turns=outcome.turns,
        stop=outcome.stop,
        stop_detail=outcome.detail,
        created=datetime.now(UTC),
        seconds=seconds,
    )


def begun(plan: Plan, model: str) -> Trajectory:
    """Return the trajectory before the first turn. Raises `SettingsError` for a task that the dialect cannot show."""
    return Trajectory(
        id=plan.id,
        task=plan.task,
        group=plan.group,
        rollout=plan.rollout,
        provenance=_provenance(plan, model),
        prompt=plan.opening.messages,
    )


def _provenance(plan: Plan, model: str, revision: str = "", layers: tuple[str, ...] = ()) -> Provenance:
    session = plan.dialect.session
    return Provenance(
        saccade=own_version(),
        dialect=plan.dialect.id,
        model=model,
        model_revision=revision,
        sampling=plan.sampling,
        limits=plan.limits,
        state_policy="" if plan.hosted else session.state.value,
        tools=tuple(tool.name for tool in plan.dialect.tools),
        boxes=plan.dialect.boxes.value,
        repairs=session.repairs,
        layers=layers,
        settings=plan.settings,
        notes=plan.notes,
    )


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


def open_journal(folder: RunFolder, plan: Plan, model: str) -> tuple[Plan, EpisodeJournal]:
    """Return the plan of the unfinished episode in `folder` that `plan` continues, or `plan` itself; and its journal.

    An episode is continued by a plan of the same task, dialect, limits, sampling, settings, model and version of
    Saccade; others stay as they are.
    """
    head = begun(plan, model)
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
