"""Replaces the verdicts of a run, keeps the earlier ones, and finds each source's own grader again.

Before anything is graded anew, the scores of all samples go to `verdicts/0001.jsonl` of the run folder, then `0002`,
and so on. Only `own_grader` reads them, and nothing deletes them. Trajectories are replaced all at
once, so a crash leaves the old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from saccade.episode.run_folder import TRAJECTORIES
from saccade.errors import SaccadeError, SettingsError
from saccade.evals.benchmarks import headline_of, source_names
from saccade.evals.grades import graded, rule_score
from saccade.evals.settings import EvalSettings
from saccade.grading.registry import grade_of, newest
from saccade.record.base import SCHEMA_VERSION, Name, Record, SchemaVersion
from saccade.record.codec import read_lines, write_lines
from saccade.record.trajectory import Score, Trajectory
from saccade.tasks.benchmarks.card import Card
from saccade.tasks.benchmarks.registry import recorded_card
from saccade.tasks.worlds.base import WORLDS

VERDICTS = "verdicts"


class Verdicts(Record):
    """The scores that a sample had."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    id: Name
    scores: tuple[Score, ...]
    own: bool
    """Whether the rule grader was the one that the sample's source names."""


def verdicts_of(run: Path, settings: EvalSettings) -> dict[str, Verdicts]:
    """Return the present scores of the samples of `run`, which has these settings, by id. Raises `RecordError`."""
    return {
        item.id: Verdicts(id=item.id, scores=item.scores, own=not settings.grader)
        for item in read_lines(run / TRAJECTORIES, Trajectory)
    }


def keep_verdicts(run: Path, verdicts: Mapping[str, Verdicts]) -> Path:
    """Write `verdicts` to `run` under the next number, and return the file."""
    folder = run / VERDICTS
    folder.mkdir(exist_ok=True)
    file = folder / f"{len(_versions(run)) + 1:04}.jsonl"
    write_lines(file, verdicts.values())
    return file


def grade_again(run: Path, settings: EvalSettings, before: EvalSettings) -> None:
    """Give every sample the verdict of `settings.grader`, or of its source's own; those of judges stay.

    Args:
        run: the run folder, with trajectories; keep their verdicts first.
        settings: those that hold from now on.
        before: those with which the samples were graded so far.

    Raises:
        SettingsError: the own grader of a sample cannot be found out.
        RecordError: a trajectory cannot be read.
    """
    file, headline = run / TRAJECTORIES, headline_of(settings)
    grader = (lambda _: settings.grader) if settings.grader else own_grader(run, before)

    def regraded() -> Iterator[Trajectory]:
        for trajectory in read_lines(file, Trajectory):
            yield graded(trajectory, grader(trajectory), headline(trajectory.task))

    write_lines(file, regraded())


def own_grader(run: Path, settings: EvalSettings) -> Callable[[Trajectory], str]:
    """Return a function from a sample to its source's grader, newest version; empty: by the answer's type.

    Where a card is gone, the run's verdicts name the grader, if the sources' own graders ever gave them. The function
    raises `SettingsError` for a sample whose grader cannot be found.
    """
    names = source_names(settings)
    cards = {card.id: card for card in map(_card, names) if card is not None}
    gone = [name for name in names if _card(name) is None and not _needs_no_card(name)]
    first = _first_graders(run) if gone else {}

    def of(trajectory: Trajectory) -> str:
        card = cards.get(trajectory.task.source)
        if card is not None and trajectory.task.answer_type in card.graders:
            return newest(card.grader_of(trajectory.task).spec)
        if not gone or trajectory.task.grader:
            return ""
        now = "" if settings.grader else grade_of(rule_score(trajectory.scores).detail).grader
        verdicts = first.get(trajectory.id, now)
        if not verdicts:
            raise SettingsError(
                f"the source {gone[0]} is not there any more (or is code, which a stored run does not run), and {run} "
                f"does not say how it graded {trajectory.id}. "
                "Put its card back where it was, or name a grader with --grader."
            )
        return newest(verdicts)

    return of


def _versions(run: Path) -> list[Path]:
    return sorted((run / VERDICTS).glob("*.jsonl"))


def _first_graders(run: Path) -> dict[str, str]:
    """Map samples to the grader of the oldest kept verdict that the source's own grader gave."""
    first: dict[str, str] = {}
    for file in _versions(run):
        for item in read_lines(file, Verdicts):
            if item.own:
                first.setdefault(item.id, grade_of(rule_score(item.scores).detail).grader)
    return first


def _card(name: str) -> Card | None:
    with suppress(SaccadeError):
        return recorded_card(name)
    return None


def _needs_no_card(name: str) -> bool:
    """Tell whether the source is a file of tasks or a world; code of the user counts if this process loaded it."""
    if name.endswith(".toml"):
        return False
    folder = name.rpartition(":")[0]
    if Path(name).exists() or (folder and Path(folder).is_dir()):
        return True
    with suppress(SaccadeError):
        WORLDS.load_recorded(name.removeprefix("world:"))
        return True
    return False
