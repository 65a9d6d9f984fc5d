"""Compare what a run does to pictures with what earlier runs did, such as rollouts of RL with the data of fine-tuning.

CodeDance (section 4.3) finds three things by looking at examples; here they are counted. New abilities are functions
that no earlier code calls, and operations that no earlier call did. A new composition is a set of operations of one
sample, each known before, that no earlier sample holds together. A transfer is an operation on a kind of task on which
no earlier sample did it. Only calls that ended well count.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Final, Literal

from pydantic import NonNegativeInt

from saccade.episode.looks import parsed
from saccade.evals.protocols.base import Findings, Protocol, Rate, Rates, SampleRow, Studied, StudiedRun
from saccade.evals.protocols.tool_use import ALIASES, HARMLESS, call_uses
from saccade.record.base import Name, Record, Text
from saccade.record.content import Code
from saccade.record.execution import Status
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.tools.context import Operation

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
