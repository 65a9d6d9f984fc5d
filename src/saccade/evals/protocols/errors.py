"""The error protocol: E1 to E6 of VISTA on every step of a run."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from math import isclose
from typing import Final, Literal

from pydantic import Field, NonNegativeInt

from saccade.core.registry import did_you_mean
from saccade.dialects.base import Fault, FaultKind, failure, find_tag_faults, recorded_dialect
from saccade.dialects.text import blocks, outside_thoughts
from saccade.episode.looks import parsed
from saccade.errors import SaccadeError
from saccade.evals.protocols.base import MOST_EXAMPLES, Findings, Protocol, Rate, Rates, SampleRow, Studied, StudiedRun
from saccade.evals.protocols.faithfulness import JudgeVerdicts, box_verdicts
from saccade.grading.clean import folded
from saccade.record.content import Code, Name, ParseError, Record, Text, ToolCall
from saccade.record.execution import Execution, Status
from saccade.record.trajectory import CORRECT, FinishReason, Trajectory, Turn
from saccade.rewards.judges.answer import BoxRule, containment
from saccade.rewards.reward import calls, silent, succeeded
from saccade.tools.context import Problem, ProblemKind
from saccade.tools.registry import own_name, recorded_tool

# What the error protocol finds: VISTA's classes E1 to E6 (appendix, error definitions; table 1).
#
# E1, E2, E3 and E5 are found by rules from what was written and what came back. E4 and E6 are estimates: no rule can
# see all wrong contents or all wrong reasoning. One sample may have several errors.


class ErrorClass(StrEnum):
    """The six classes of errors."""

    E1 = "E1"
    E2 = "E2"
    E3 = "E3"
    E4 = "E4"
    E5 = "E5"
    E6 = "E6"

    @property
    def words(self) -> str:
        return _TITLES[self]

    @property
    def estimated(self) -> bool:
        """Whether it is an estimate and no finding of a rule that is always right."""
        return self in (ErrorClass.E4, ErrorClass.E6)


_TITLES = {
    ErrorClass.E1: "invocation schema",
    ErrorClass.E2: "argument name",
    ErrorClass.E3: "argument format",
    ErrorClass.E4: "argument content",
    ErrorClass.E5: "tool output",
    ErrorClass.E6: "reasoning after the tool",
}


class StepError(Record):
    """One error of one turn."""

    error: ErrorClass
    turn: NonNegativeInt
    """From 0."""
    rule: Name
    """What showed it, e.g. `unclosed_tag`, `unknown_argument`, `gold_box`."""
    detail: Text = ""
    """A sentence for a person, with the nearest known names where a name was wrong."""


class ErrorRow(SampleRow):
    """One sample and its errors."""

    calls: NonNegativeInt
    answered: bool
    errors: tuple[StepError, ...] = ()
    undecided: tuple[ErrorClass, ...] = ()
    """Of the estimated classes: those that nothing here could tell, for want of gold or of a judge."""

    def has(self, error: ErrorClass) -> bool:
        return any(step.error is error for step in self.errors)


class ErrorExample(Record):
    """An error to be looked at."""

    id: Name
    step: StepError


class ErrorRate(Record):
    """One class in a run."""

    error: ErrorClass
    title: Text
    estimated: bool
    samples: Rate
    """Samples with such an error; of an estimated class those that could be decided."""
    wrong: Rate
    """The same of the samples with a wrong answer, the denominator of the paper."""
    steps: NonNegativeInt
    """Errors in all."""
    undecided: NonNegativeInt = 0
    """Samples that nothing here could tell."""
    rules: tuple[tuple[Name, NonNegativeInt], ...] = ()
    """What showed the errors, and how many each, most first."""
    examples: tuple[ErrorExample, ...] = Field(default=(), max_length=10)


class Errors(Findings):
    """How often each class of errors occurs."""

    protocol: Literal["errors"] = "errors"
    methods: tuple[Text, ...]
    """How the estimated classes were estimated."""
    rates: tuple[ErrorRate, ...]
    """E1 to E6."""
    any_error: Rate
    """Samples with at least one error that a rule found."""
    format_failures: Rate
    """Samples that ended without an answer: no reasoning error, and counted apart."""
    rows: tuple[ErrorRow, ...]


# E1, E2, E3 and E5 in calls of typed tools, from the call itself and from what came of it.

_KINDS: Final = frozenset(kind.value for kind in ProblemKind)
_ARGUMENTS: Final = (ProblemKind.SCHEMA, ProblemKind.ARGUMENT_NAME, ProblemKind.ARGUMENT_FORMAT)
"""Kinds that the arguments alone can have."""


def call_errors(number: int, turn: Turn, call: ToolCall) -> Iterator[StepError]:
    """Yield the errors of one call, whether it was run or not."""
    run = turn.execution
    problem = None if run is None or run.problem not in _KINDS else ProblemKind(run.problem)
    mistakes = _mistakes(call) if run is None or problem in _ARGUMENTS else ()
    for kind, message in dict.fromkeys((item.kind, item.message) for item in mistakes):
        yield _step(number, kind, message)
    if run is None:
        return
    if problem is None:
        yield from output_errors(number, turn)
    elif (
        problem.vista is not None and run.status is not Status.LOST and problem not in {item.kind for item in mistakes}
    ):
        yield _step(number, problem, _last_line(run.traceback))


def output_errors(number: int, turn: Turn) -> Iterator[StepError]:
    """E5 in what one call gave back, where no tool named the problem: an abrupt end, nothing, numbers that are none."""
    run = turn.execution
    if run is None:
        return
    if run.status in (Status.TIMEOUT, Status.KILLED, Status.OUT_OF_MEMORY, Status.REFUSED):
        yield StepError(error=ErrorClass.E5, turn=number, rule=run.status.value, detail=_last_line(run.traceback))
    elif silent(turn):
        yield StepError(error=ErrorClass.E5, turn=number, rule="empty", detail="The call gave nothing back.")
    elif run.status is Status.OK and run.value is not None and isinstance(turn.action, ToolCall):
        yield from _unreadable(number, run.value)


def _mistakes(call: ToolCall) -> tuple[Problem, ...]:
    """Return what is wrong with the arguments by the tool's schema; nothing of a tool that is not available here."""
    try:
        tool = recorded_tool(call.name)
        if tool.needs.missing():
            return ()
        alias = call.name if own_name(call.name) != call.name else None
        return tool.mistakes(dict(call.arguments), alias=alias)
    except SaccadeError:
        return ()


def _step(number: int, kind: ProblemKind, message: str) -> StepError:
    return StepError(error=ErrorClass(kind.vista or "E5"), turn=number, rule=kind.value, detail=message)


def _unreadable(number: int, value: str) -> Iterator[StepError]:
    """Yield what is wrong with a value that opens as JSON: that it is none, or a number that is none."""
    text = value.strip()
    if text[:1] not in ("{", "["):
        return
    strange: list[str] = []
    try:
        json.loads(text.partition("\nNew image ")[0], parse_constant=strange.append)
    except (ValueError, RecursionError):
        # A sentence may open with a bracket too; only what closes as it opened was meant as JSON.
        if text.endswith({"{": "}", "[": "]"}[text[0]]):
            yield StepError(error=ErrorClass.E5, turn=number, rule="not_json", detail="The value is no valid JSON.")
    if strange:
        detail = f"The value holds {strange[0]}."
        yield StepError(error=ErrorClass.E5, turn=number, rule="not_a_number", detail=detail)


def _last_line(traceback: str | None) -> str:
    return (traceback or "").strip().rpartition("\n")[2].removeprefix("ToolError: ")


# E1, E2, E3 and E5 in code. VISTA defines its classes for typed calls; for Python this is how they are carried over.
#
# E1  the code is no Python
# E2  a name that is not there: variable, attribute, module, keyword argument
# E3  a value of the wrong type, range or shape; a crop beyond its picture; a file that is not there
# E5  any other end: another exception, a time-out, a kill, nothing given back

_CLASSES: Final[Mapping[str, tuple[ErrorClass, str]]] = {
    **dict.fromkeys(("SyntaxError", "IndentationError", "TabError"), (ErrorClass.E1, "code_syntax")),
    **dict.fromkeys(
        ("NameError", "UnboundLocalError", "AttributeError", "ImportError", "ModuleNotFoundError"),
        (ErrorClass.E2, "code_name"),
    ),
    **dict.fromkeys(
        (
            *("TypeError", "ValueError", "IndexError", "KeyError", "OverflowError", "AssertionError", "error"),
            *("FileNotFoundError", "IsADirectoryError", "UnidentifiedImageError", "DecompressionBombError"),
        ),
        (ErrorClass.E3, "code_value"),
    ),
}
"""By the class of the exception; `error` is OpenCV's."""
_KEYWORD: Final = re.compile(r"got an unexpected keyword argument '(?P<name>\w+)'")
_MISSING: Final = re.compile(r"name '(?P<name>\w+)' is not defined")
_CLAMPS: Final = ("clamp_crop", "clamp_slice")


def code_errors(number: int, turn: Turn, known: Iterable[str]) -> Iterator[StepError]:
    """Yield the errors of one call of code; `known` are the names that code may have used by then."""
    run = turn.execution
    if run is None or run.status is Status.LOST:
        return
    clamps = [repair.note for repair in run.repairs if repair.name in _CLAMPS]
    if clamps:
        detail = clamps[0] or "A crop reached beyond its picture."
        yield StepError(error=ErrorClass.E3, turn=number, rule="out_of_picture", detail=detail)
    if run.status is Status.ERROR:
        yield _raised(number, run, known)
    else:
        yield from output_errors(number, turn)


def names_in(code: str) -> frozenset[str]:
    """Return names that the code assigns, defines or imports; none if it is no Python."""
    tree = parsed(code)
    if tree is None:
        return frozenset()
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names |= {node.name for node in ast.walk(tree) if isinstance(node, defined)}
    names |= {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return frozenset(names)


def _raised(number: int, run: Execution, known: Iterable[str]) -> StepError:
    ended = failure(run)
    error, rule = _CLASSES.get(ended.kind, (ErrorClass.E5, "code_exception"))
    detail = f"{ended.kind}: {ended.message}"
    if ended.kind == "TypeError" and _KEYWORD.search(ended.message):
        error, rule = ErrorClass.E2, "keyword_argument"
    missing = _MISSING.search(ended.message) if ended.kind == "NameError" else None
    if missing is not None:
        hint = did_you_mean(missing["name"], known)
        detail = f"{detail}. {hint}".rstrip(" .") if hint else detail
    return StepError(error=error, turn=number, rule=rule, detail=detail[:500])


# E4, an estimate: did a call that was well written look at the right thing?
#
# Gold arguments are the task's evidence boxes: a step that cut out parts of its pictures, none of which holds a quarter
# of a box, however large it is, chose the wrong argument. Steps whose parts are not known are judged by a model where
# one was asked about their pictures: all of them show nothing that the question names. Looking around before finding
# counts as an error too, and a wrong column, series or word is not seen at all. So it is an estimate.

HELD: Final = BoxRule().touched
"""Fraction of a gold box that a part must hold; its size is no error."""


def content_errors(studied: Studied) -> tuple[tuple[StepError, ...], bool]:
    """Find the errors, and whether the sample could be decided: nothing was called well, or one step was judged."""
    steps = [number for number, turn in enumerate(studied.trajectory.turns) if succeeded(turn)]
    if not steps:
        return (), True
    said = ((number, _by_boxes(studied, number) or _by_model(studied, number)) for number in steps)
    verdicts = [(number, verdict) for number, verdict in said if verdict is not None]
    errors = tuple(
        StepError(error=ErrorClass.E4, turn=number, rule=rule, detail=detail)
        for number, (right, rule, detail) in verdicts
        if not right
    )
    return errors, bool(verdicts)


def _by_boxes(studied: Studied, number: int) -> tuple[bool, str, str] | None:
    """Return whether the step looked at the right thing, what says so, and a sentence; None if nothing says."""
    task = studied.trajectory.task
    looked = [region for region in studied.regions if region.turn == number] if task.evidence else []
    if not looked:
        return None
    full_boxes = {(item.name, (0, 0, item.part.width, item.part.height)) for item in task.media}
    parts = [region for region in looked if (region.name, region.box) not in full_boxes]
    if not parts:
        return None  # it looked at all of the picture: no argument chose a place
    held = max(containment(gold, region) for region in parts for gold in task.evidence)
    boxes = ", ".join(str([round(edge) for edge in region.box]) for region in parts[:3])
    gold = ", ".join(str([round(edge) for edge in box.xyxy]) for box in task.evidence[:3])
    return held >= HELD, "gold_box", f"Looked at {boxes}; the evidence lies at {gold}."


def _by_model(studied: Studied, number: int) -> tuple[bool, str, str] | None:
    verdicts = () if studied.verdicts is None else studied.verdicts[number]
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    if not scores or len(scores) < len(verdicts):
        return None
    return max(scores) >= 1, "model_judge", "No picture that came back shows what the question names."


# A dialect that lists the faults of its turns (`faults`) is asked; of other dialects a turn is at fault if it holds no
# action, and the rule names the tag that is wrong where one is.

_TAGS: Final = ("code", "tool_call", "answer")


def form_errors(number: int, turn: Turn, dialect: str) -> Iterator[StepError]:
    """Yield the errors in the form of one turn; each rule once."""
    finish = turn.finish_reason or FinishReason.STOP
    if finish in (FinishReason.FILTERED, FinishReason.DECLINED):
        return  # the provider withheld the text, or the model refused: that is no error of form
    errors = _listed(turn, finish, dialect)
    faults = _faults(turn, finish) if errors is None else errors
    for kind, reason in {fault.kind: fault.reason for fault in reversed(faults)}.items():
        yield StepError(error=ErrorClass.E1, turn=number, rule=kind.value, detail=reason)


def _listed(turn: Turn, finish: FinishReason, dialect: str) -> tuple[Fault, ...] | None:
    try:
        return recorded_dialect(dialect).faults(turn.text, finish)
    except SaccadeError:
        return None


def _faults(turn: Turn, finish: FinishReason) -> tuple[Fault, ...]:
    if isinstance(turn.action, Code | ToolCall):
        both = any(block.closed for block in blocks(outside_thoughts(turn.text), "answer"))
        reason = "A turn either calls something or answers, and this one does both."
        return (Fault(FaultKind.CALL_AND_ANSWER, reason),) if both else ()
    if not isinstance(turn.action, ParseError):
        return ()
    if finish is FinishReason.LENGTH:
        return (Fault(FaultKind.TRUNCATED, turn.action.reason),)
    # One tag at a time: code may be inside a thought.
    tags = tuple(fault for tag in _TAGS for fault in find_tag_faults(turn.text, (tag,)))
    return tags or (Fault(FaultKind.NO_ACTION, turn.action.reason),)


# E6, an estimate: what came back held the answer, and the answer given was wrong.
#
# Three signals: a line of printed text states the gold answer as its result; a picture that came back holds a gold box;
# a model says that a picture shows what the question asks about. None of them proves that the model could have known,
# and a wrong sample without any of them is undecided, not free of the error. A sample without an answer failed in its
# form, and one without a call reasoned about no tool: neither is an E6.

_RESULT: Final = re.compile(r"[:=]\s*(?P<result>[^:=]+)$")
_SHORTEST: Final = 3
"""Letters of a gold answer that is looked for inside a line; shorter ones must be all of it, or its result."""
_COMMON: Final = frozenset({"yes", "true", "false", "none"})
_SEEN: Final = "A picture of turn {} holds a gold box, and the answer is wrong."
_JUDGED: Final = "A model says that a picture of turn {} shows what the question asks about, and the answer is wrong."


def reasoning_errors(studied: Studied) -> tuple[tuple[StepError, ...], bool]:
    """Return the error, if a signal tells it, and whether the sample could be decided."""
    trajectory = studied.trajectory
    steps = [number for number, turn in enumerate(trajectory.turns) if succeeded(turn)]
    correct = next((score.value for score in trajectory.scores if score.name == CORRECT), None)
    if correct is None:
        return (), False
    if correct == 1 or trajectory.answer is None or not steps:
        return (), True
    signal = next(_signals(studied, steps), None)
    return ((signal,), True) if signal is not None else ((), False)


def states(text: str, gold: str) -> bool:
    """Tell whether a line is `gold`, ends with it as a result (`total = 7`), or holds it as a long enough word."""
    target = folded(gold)
    if not target:
        return False
    words = re.compile(rf"(?<!\w){re.escape(target)}(?!\w)") if _is_wordy(target) else None
    for line in map(folded, text.splitlines()):
        result = _RESULT.search(line)
        if _same(line, target) or (result is not None and _same(result["result"].strip(" ."), target)):
            return True
        if words is not None and words.search(line):
            return True
    return False


def _signals(studied: Studied, steps: list[int]) -> Iterator[StepError]:
    trajectory = studied.trajectory
    gold = trajectory.task.answer
    last = len(trajectory.turns) - 1
    for number in steps:
        run = trajectory.turns[number].execution
        if gold is not None and run is not None and states(_printed(run), gold):
            detail = f"Turn {number} printed the gold answer {gold!r:.80}; the answer was {trajectory.answer!r:.80}."
            yield StepError(error=ErrorClass.E6, turn=last, rule="gold_printed", detail=detail)
    boxes = box_verdicts(trajectory, studied.regions) if trajectory.task.evidence else None
    for rule, said, verdicts in (("gold_box_seen", _SEEN, boxes), ("model_judge", _JUDGED, studied.verdicts)):
        for number in steps:
            if verdicts is not None and _shows(verdicts, number):
                yield StepError(error=ErrorClass.E6, turn=last, rule=rule, detail=said.format(number))


def _shows(verdicts: JudgeVerdicts, number: int) -> bool:
    return any(verdict.score is not None and verdict.score >= 1 for verdict in verdicts[number])


def _printed(run: Execution) -> str:
    return "\n".join(filter(None, (run.stdout, run.value)))


def _is_wordy(text: str) -> bool:
    """Return whether it has letters enough that it hardly stands in a line by chance; yes and no do."""
    return sum(letter.isalpha() for letter in text) >= _SHORTEST and text not in _COMMON


def _same(one: str, other: str) -> bool:
    if one.strip("'\"") == other:
        return True
    try:
        return isclose(float(one), float(other), rel_tol=1e-9)
    except ValueError:
        return False


METHODS: Final = (
    "E4 (estimate): a step looked at parts of a picture that hold less than a quarter of any gold box; or, where that "
    "is not known, a model says of all pictures of the step that they show nothing the question names.",
    "E6 (estimate): the answer is wrong although a call printed the gold answer, a picture holds a gold box, or a "
    "model says that a picture shows what the question asks about.",
)


def row(studied: Studied) -> ErrorRow:
    """Return the errors of one sample, by turn and class."""
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
    """Return the findings of all rows."""
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
    """Yield names that the first code found."""
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
