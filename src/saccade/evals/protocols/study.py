"""Read a stored run once for all protocols, and compare what it does to pictures with earlier runs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Final, Literal

from pydantic import NonNegativeInt

from saccade.core.seam import seam
from saccade.episode.flow import as_done
from saccade.episode.looks import parsed
from saccade.episode.regions import StoredPixels
from saccade.episode.run_folder import MEDIA, TRAJECTORIES, note_empty, trajectories_of
from saccade.errors import OwnCodeError, SettingsError
from saccade.evals.protocols.base import AnyProtocol, Findings, Protocol, Rate, Rates, SampleRow, Studied, StudiedRun
from saccade.evals.protocols.faithfulness import PictureJudge
from saccade.evals.protocols.tool_use import ALIASES, HARMLESS, call_uses
from saccade.evals.rows import natural
from saccade.evals.stored import run_settings
from saccade.media.store import MediaStore
from saccade.record.codec import read_ids, read_lines
from saccade.record.content import Code, Name, Record, Text
from saccade.record.execution import Status
from saccade.record.task import Task
from saccade.record.trajectory import StopReason, Trajectory
from saccade.tools.context import Operation

# CodeDance (section 4.3) finds three things by looking at examples; here they are counted. New abilities are functions
# that no earlier code calls, and operations that no earlier call did. A new composition is a set of operations of one
# sample, each known before, that no earlier sample holds together. A transfer is an operation on a kind of task on
# which no earlier sample did it. Only calls that ended well count.


_NONE: Final = frozenset({Operation.NO_OPERATION, Operation.OTHER, Operation.UNREADABLE})
_LARGEST: Final = 3
"""Operations of a composition that are looked at; larger ones are told by their parts."""


class UsedRow(SampleRow):
    """What one sample did."""

    kind: Text
    """Of its task: the tag `category=...`, or else the source."""
    operations: tuple[Operation, ...]
    functions: tuple[Text, ...]
    """By their full names where the code imports them, else as `.method`."""


class Emerged(Record):
    """Something that no earlier sample did."""

    what: Text
    samples: Rate
    right: Rate
    """Of the samples that did it."""
    first: Name
    """Id of one."""


class Emergence(Findings):
    """What is new in a run."""

    protocol: Literal["emergence"] = "emergence"
    before: tuple[Text, ...]
    """The earlier runs."""
    samples_before: NonNegativeInt
    new_ability: Rate
    """Samples with a new function or operation; so the next two."""
    new_composition: Rate
    transfer: Rate
    functions: tuple[Emerged, ...]
    operations: tuple[Emerged, ...]
    compositions: tuple[Emerged, ...]
    transfers: tuple[Emerged, ...]
    rows: tuple[UsedRow, ...]


def row(studied: Studied) -> UsedRow:
    """Return the row of one sample."""
    done = [call for call in call_uses(studied) if call.status is Status.OK]
    operations = {operation for call in done for operation in call.operations} - _NONE
    return UsedRow(
        **studied.head,
        kind=_kind(studied.trajectory.task),
        operations=tuple(one for one in Operation if one in operations),
        functions=tuple(sorted(set(_functions(studied.trajectory)))),
    )


def _kind(task: Task) -> str:
    tagged = (tag.removeprefix("category=") for tag in task.tags if tag.startswith("category="))
    return next(tagged, task.source.partition("@")[0])


def _functions(trajectory: Trajectory) -> Iterator[str]:
    aliases = dict(ALIASES)
    for turn in trajectory.turns:
        if not isinstance(turn.action, Code) or turn.execution is None or turn.execution.status is not Status.OK:
            continue
        tree = parsed(turn.action.code)
        nodes = [] if tree is None else list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, ast.Import):
                aliases |= {alias.asname: alias.name for alias in node.names if alias.asname}
                aliases |= {alias.name: alias.name for alias in node.names if not alias.asname}
            elif isinstance(node, ast.ImportFrom) and node.module:
                aliases |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        for node in nodes:
            name = _named(node.func, aliases) if isinstance(node, ast.Call) else ""
            if name and name.rpartition(".")[2] not in HARMLESS:
                yield name


def _named(func: ast.expr, aliases: Mapping[str, str]) -> str:
    """Return the name of what is called; empty for a plain function that is not imported."""
    steps: list[str] = []
    while isinstance(func, ast.Attribute):
        steps.insert(0, func.attr)
        func = func.value
    if isinstance(func, ast.Name) and func.id in aliases:
        return ".".join([aliases[func.id], *steps])
    return f".{steps[-1]}" if steps else ""


def emergence(before: Sequence[UsedRow], names: Sequence[str]) -> Protocol[UsedRow, Emergence]:
    """Make the protocol that compares a run with the rows of earlier runs, which have these names."""
    found = partial(findings, before=tuple(before), names=tuple(names))
    return Protocol("emergence", "New since earlier runs (CodeDance)", Emergence, row, found)


def findings(
    rows: Sequence[UsedRow], about: StudiedRun, *, before: Sequence[UsedRow], names: Sequence[str]
) -> Emergence:
    """Return what `rows` hold and `before` does not."""
    seen = [frozenset(one.operations) for one in before]
    single = frozenset[Operation]().union(*seen)
    known = frozenset(name for one in before for name in one.functions)
    places = frozenset((one.kind, operation) for one in before for operation in one.operations)
    together = frozenset(part for sets in seen for part in _sets(sets))
    abilities = [[name for name in one.functions if name not in known] for one in rows]
    operations = [[_words([one_]) for one_ in one.operations if one_ not in single] for one in rows]
    composed = [list(_composed(single & set(one.operations), together)) for one in rows]
    moved = [
        [f"{_words([at])} on {one.kind}" for at in one.operations if at in single and (one.kind, at) not in places]
        for one in rows
    ]
    rates = Rates(rows)
    either = [bool(left or right) for left, right in zip(abilities, operations, strict=True)]
    return Emergence(
        about=about,
        before=tuple(names),
        samples_before=len(before),
        new_ability=rates.rate(either),
        new_composition=rates.rate(map(bool, composed)),
        transfer=rates.rate(map(bool, moved)),
        functions=_listed(rows, abilities, rates),
        operations=_listed(rows, operations, rates),
        compositions=_listed(rows, composed, rates),
        transfers=_listed(rows, moved, rates),
        rows=tuple(rows),
    )


def _sets(operations: Iterable[Operation]) -> Iterator[frozenset[Operation]]:
    ordered = sorted(operations)
    for size in range(2, _LARGEST + 1):
        yield from map(frozenset, combinations(ordered, size))


def _composed(operations: Iterable[Operation], together: Container[frozenset[Operation]]) -> Iterator[str]:
    """Yield the smallest sets of operations, each known by itself, that nobody did together."""
    new: list[frozenset[Operation]] = []
    for part in _sets(operations):
        if part not in together and not any(smaller < part for smaller in new):
            new.append(part)
            yield _words(part)


def _words(operations: Iterable[Operation]) -> str:
    return " + ".join(one.value.replace("_", " ") for one in sorted(operations))


def _listed(rows: Sequence[UsedRow], found: Sequence[Sequence[str]], rates: Rates) -> tuple[Emerged, ...]:
    """Return each new thing with the samples that have it, the most frequent first."""
    made = []
    for what in dict.fromkeys(text for texts in found for text in texts):
        has = [what in texts for texts in found]
        right = [one.right if mine and one.correct is not None else None for one, mine in zip(rows, has, strict=True)]
        first = next(one.id for one, mine in zip(rows, has, strict=True) if mine)
        made.append(Emerged(what=what, samples=rates.rate(has), right=rates.rate(right), first=first))
    return tuple(sorted(made, key=lambda one: -one.samples.count))


CountCallback = Callable[[int, int], None]
"""Hears how many samples were read, and of how many."""

AT_ONCE = 16
"""Samples whose pictures are judged side by side."""


@dataclass(frozen=True)
class Study:
    """What is asked of a run."""

    protocols: tuple[AnyProtocol, ...]
    judge: PictureJudge | None = None
    budget: str = "qwen2.5-vl"
    """Pixel budget by which visual tokens are estimated."""


async def study(run: Path, settings: Study, watch: CountCallback = lambda done, of: None) -> dict[str, Findings]:
    """Return what each protocol finds in the run folder `run`, by its name.

    Raises `SettingsError`: it is no run folder; `RecordError`: a trajectory cannot be read; `RegistryError`: there is
    no such pixel budget; `ModelDeniedError`: the judge refuses whatever it is asked; `OwnCodeError`: a protocol of a
    user's own raised an exception.
    """
    last = _last_lines(run)
    rows: dict[str, list[SampleRow]] = {protocol.name: [] for protocol in settings.protocols}
    about = _RunSummary(run.resolve().name, settings, _frames(run))
    async for batch in as_done(_samples(run, last), _Reading(run, settings).rows, AT_ONCE):
        for trajectory, by_protocol in batch:
            about.count(trajectory)
            for name, row in by_protocol.items():
                rows[name].append(row)
        watch(about.seen, len(last))
    return {
        protocol.name: _findings(protocol, sorted(rows[protocol.name], key=_order), about.about())
        for protocol in settings.protocols
    }


def _row(protocol: AnyProtocol, studied: Studied) -> SampleRow:
    with _told(protocol, f"the row of the sample {studied.trajectory.id}"):
        row: SampleRow = seam(protocol.row, SampleRow)(studied)
    return row


def _findings(protocol: AnyProtocol, rows: Sequence[SampleRow], about: StudiedRun) -> Findings:
    with _told(protocol, f"the findings of {len(rows):,} rows"):
        found: Findings = seam(protocol.findings, Findings)(rows, about)
    return found


@contextmanager
def _told(protocol: AnyProtocol, what: str) -> Iterator[None]:
    try:
        yield
    except OwnCodeError as error:
        raise OwnCodeError(f"the protocol {protocol.name} failed at {what}: {error}") from error


@dataclass(frozen=True)
class _Reading:
    run: Path
    asked: Study

    async def rows(self, trajectory: Trajectory) -> tuple[Trajectory, dict[str, SampleRow]]:
        """Return the rows of one sample; none of one that is lost or not over."""
        if not over(trajectory):
            return trajectory, {}
        judge = self.asked.judge
        verdicts = None if judge is None else await judge.verdicts(trajectory)
        studied = Studied(trajectory, StoredPixels(MediaStore(self.run / MEDIA)), verdicts, self.asked.budget)
        return trajectory, {protocol.name: _row(protocol, studied) for protocol in self.asked.protocols}


class _RunSummary:
    def __init__(self, run: str, asked: Study, frames: str) -> None:
        self.seen = self.lost = 0
        self._fixed = {
            "run": run,
            "judge": asked.judge.name if asked.judge is not None else "",
            "budget": asked.budget,
            "frames": frames,
        }
        self._models: set[str] = set()
        self._dialects: set[str] = set()

    def count(self, trajectory: Trajectory) -> None:
        self.seen += 1
        self.lost += not over(trajectory)
        self._models.add(trajectory.provenance.model)
        self._dialects.add(trajectory.provenance.dialect)

    def about(self) -> StudiedRun:
        return StudiedRun(
            **self._fixed,
            models=tuple(sorted(self._models)),
            dialects=tuple(sorted(self._dialects)),
            samples=self.seen - self.lost,
            lost=self.lost,
        )


def over(trajectory: Trajectory) -> bool:
    """Tell whether the episode came to an end of its own; one that was lost or cancelled says nothing of the model."""
    return trajectory.stop is not None and not trajectory.lost and trajectory.stop is not StopReason.CANCELLED


def _last_lines(run: Path) -> dict[str, int]:
    """Map ids to the number of their last line, from 0."""
    file = trajectories_of(run)
    note_empty(file)
    return {name: number for number, name in enumerate(read_ids(file, Trajectory))}


def _samples(run: Path, last: dict[str, int]) -> Iterator[Trajectory]:
    for number, trajectory in enumerate(read_lines(run / TRAJECTORIES, Trajectory)):
        if last[trajectory.id] == number:
            yield trajectory


def _order(row: SampleRow) -> tuple[Sequence[tuple[int, str]], int, str]:
    return natural(row.task), row.rollout, row.id


def _frames(run: Path) -> str:
    try:
        return run_settings(run).frames.rate
    except SettingsError:
        return ""  # a run that `saccade eval` did not make
