"""An episode while it is played: each turn is on the disk before anything else is done, so a kill loses one call.

    trajectory = await run_kept(plan, model, sandbox, folder)       # of `saccade.episode.kept`

`unfinished/ID.jsonl` of a run folder holds the trajectory without turns, then turns with their numbers; a later line
of a number stands in place of the earlier one. An unfinished episode is continued by the same plan: what the model
wrote is not asked for again, its code is run again to rebuild the state of the sandbox, and the model continues from
what it saw the first time. Code whose outcome depends on chance or on the clock may leave another state; where its
output shows that, the trajectory's `stop_detail` says so. The limit of wall time begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import NonNegativeInt

from saccade.episode.plan import Plan
from saccade.episode.run_folder import UNFINISHED, RunFolder
from saccade.episode.trajectories import begun
from saccade.errors import RecordError
from saccade.record.base import SCHEMA_VERSION, Record, SchemaVersion
from saccade.record.codec import append_lines, loads, recover_lines
from saccade.record.disk import disk_words
from saccade.record.execution import Execution
from saccade.record.trajectory import Trajectory
from saccade.record.turn import Turn

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
        """The turn of that number (from 0) as it went before; None where the episode continues with new turns."""
        return self.earlier[number] if number < len(self.earlier) else None

    def compare(self, number: int, before: Execution, now: Execution) -> None:
        """Notice that a call which was run again gave something else."""
        if _outcome(before) != _outcome(now):
            self._differing.append(number + 1)

    def with_earlier(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory with the seconds of what was before it was continued, and a word about it."""
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
    """The plan of the unfinished episode in `folder` that `plan` continues, or `plan` itself; and its journal.

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
    """What a person reads before an episode is continued."""
    return (
        f"Continuing an episode that was broken off after turn {turns}: what the model wrote is not asked for again, "
        "and its code is run again to rebuild the state of the sandbox."
    )


def journals(root: Path) -> list[Path]:
    """The files of the unfinished episodes of a run folder."""
    return sorted((root / UNFINISHED).glob("*.jsonl"))


def unfinished(root: Path, unread: Callable[[str], None] = lambda said: None) -> Iterator[Unfinished]:
    """The unfinished episodes of a run folder, each without a last line that was cut short.

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
