"""The error protocol: E1 to E6 of VISTA on every step of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from saccade.dialects.registry import recorded_dialect
from saccade.errors import SaccadeError
from saccade.evals.protocols.base import Protocol, Studied
from saccade.evals.protocols.errors.calls import call_errors
from saccade.evals.protocols.errors.code import code_errors, names_in
from saccade.evals.protocols.errors.content import content_errors
from saccade.evals.protocols.errors.form import form_errors
from saccade.evals.protocols.errors.reasoning import reasoning_errors
from saccade.evals.protocols.errors.records import ErrorClass, ErrorExample, ErrorRate, ErrorRow, Errors, StepError
from saccade.evals.protocols.findings import MOST_EXAMPLES, StudiedRun
from saccade.evals.protocols.rates import Rates
from saccade.record.action import Code, ToolCall
from saccade.record.trajectory import Trajectory
from saccade.rewards.reading import calls

METHODS: Final = (
    "E4 (estimate): a step looked at parts of a picture that hold less than a quarter of any gold box; or, where that "
    "is not known, a model says of all pictures of the step that they show nothing the question names.",
    "E6 (estimate): the answer is wrong although a call printed the gold answer, a picture holds a gold box, or a "
    "model says that a picture shows what the question asks about.",
)


def row(studied: Studied) -> ErrorRow:
    """The errors of one sample, by turn and class."""
    content, content_known = content_errors(studied)
    reasoning, reasoning_known = reasoning_errors(studied)
    errors = [*_by_rule(studied.trajectory), *content, *reasoning]
    known = {ErrorClass.E4: content_known, ErrorClass.E6: reasoning_known}
    return ErrorRow(
        **studied.head,
        calls=len(calls(studied.trajectory)),
        answered=studied.trajectory.answer is not None,
        errors=tuple(sorted(errors, key=lambda step: (step.turn, step.error))),
        undecided=tuple(error for error, decided in known.items() if not decided),
    )


def findings(rows: Sequence[ErrorRow], about: StudiedRun) -> Errors:
    """The findings of all rows."""
    rates = Rates(rows)
    return Errors(
        about=about,
        methods=METHODS,
        rates=tuple(_rate(error, rows, rates) for error in ErrorClass),
        any_error=rates.rate(any(not step.error.estimated for step in row.errors) for row in rows),
        format_failures=rates.rate(not row.answered for row in rows),
        rows=tuple(rows),
    )


def _by_rule(trajectory: Trajectory) -> Iterator[StepError]:
    known = set(_bound(trajectory))
    for number, turn in enumerate(trajectory.turns):
        yield from form_errors(number, turn, trajectory.provenance.dialect)
        if isinstance(turn.action, ToolCall):
            yield from call_errors(number, turn, turn.action)
        elif isinstance(turn.action, Code):
            known |= names_in(turn.action.code)
            yield from code_errors(number, turn, known)


def _bound(trajectory: Trajectory) -> Iterator[str]:
    """Names that the first code found."""
    try:
        dialect = recorded_dialect(trajectory.provenance.dialect)
        opening = dialect.open(trajectory.task)
    except SaccadeError:
        return
    yield from (*opening.bindings, *opening.strings, *dialect.session.preload)


def _rate(error: ErrorClass, rows: Sequence[ErrorRow], rates: Rates) -> ErrorRate:
    hits = [None if error in row.undecided else row.has(error) for row in rows]
    wrong = [hit if row.wrong else None for row, hit in zip(rows, hits, strict=True)]
    steps = [(row.id, step) for row in rows for step in row.errors if step.error is error]
    samples, of_wrong = rates.rates([hits, wrong])
    return ErrorRate(
        error=error,
        title=error.words,
        estimated=error.estimated,
        samples=samples,
        wrong=of_wrong,
        steps=len(steps),
        undecided=hits.count(None),
        rules=tuple(Counter(step.rule for _, step in steps).most_common()),
        examples=tuple(ErrorExample(id=name, step=step) for name, step in steps[:MOST_EXAMPLES]),
    )


PROTOCOL: Final = Protocol("errors", "Errors E1 to E6 (VISTA)", Errors, row, findings)
