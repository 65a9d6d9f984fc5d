"""Load graders by id, choose a task's grader, and turn verdicts into scores.

Packages add ready graders in the entry point group `saccade.graders`. A rule that changes verdicts gets a new version;
the old one stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Final, cast

from pydantic import TypeAdapter, ValidationError

from saccade.core.registry import Registry, all_of, has_members
from saccade.core.seam import has_methods, seam
from saccade.errors import GradingError, SaccadeError, SettingsError
from saccade.grading.base import Grader, Verdict
from saccade.record.content import clean_text
from saccade.record.task import OPEN, AnswerType, Task
from saccade.record.trajectory import CORRECT, Score

GRADERS: Final = Registry[Grader](
    "graders",
    {
        "text@1": "saccade.grading.text:TEXT",
        "choice@1": "saccade.grading.choice:CHOICE",
        "yes-no@1": "saccade.grading.yes_no:YES_NO",
        "number@1": "saccade.grading.number:NUMBER",
        "number-rounded@1": "saccade.grading.number:ROUNDED",
        "number-1pct@1": "saccade.grading.number:ONE_PERCENT",
        "count@1": "saccade.grading.number:COUNT",
        "year@1": "saccade.grading.number:YEAR",
        "math@1": "saccade.grading.math:MATH [math]",
        "list@1": "saccade.grading.relaxed:ORDERED",
        "set@1": "saccade.grading.relaxed:SET",
        "relaxed@1": "saccade.grading.relaxed:RELAXED",
        "mra@1": "saccade.grading.anls:MRA",
        "anls@1": "saccade.grading.anls:ANLS",
        "anls-published@1": "saccade.grading.anls:PUBLISHED",
        "vqa@1": "saccade.grading.vqa:VQA",
        "box@1": "saccade.grading.boxes:BOX",
        "iou@1": "saccade.grading.boxes:IOU",
        "point@1": "saccade.grading.boxes:POINT",
    },
    all_of(has_members(("grade",)), has_methods(Grader)),
)

DEFAULTS: Mapping[AnswerType, str] = MappingProxyType(
    {
        AnswerType.TEXT: "text@1",
        AnswerType.CHOICE: "choice@1",
        AnswerType.YES_NO: "yes-no@1",
        AnswerType.NUMBER: "number@1",
        AnswerType.BOX: "box@1",
        AnswerType.LIST: "list@1",
    }
)
"""The grader of each type of answer, where no benchmark names another."""


def load_grader(spec: str) -> Grader:
    """Load the grader that `spec` names, as in `relaxed`, `relaxed@1` or, with parameters, `relaxed@1:tolerance=0.1`.

    In place of an id, code of the user's own: `file.py:NAME`, `module:NAME`, `file.py:NAME:tolerance=0.1`.

    Raises:
        RegistryError: nothing has that id (suggests the nearest), it cannot be imported, or it is no grader.
        SettingsError: it has no such parameter, or that value is none for it.
    """
    name, parameters = GRADERS.split(spec)
    return _with_parameters(name, parameters) if parameters else GRADERS.load(name)


def newest(recorded: str) -> str:
    """Return the same grader and parameters as a record names, in the newest version.

    Raises:
        RegistryError: it is a user's own code that was not named in this process; a record runs none.
    """
    check_recorded(recorded)
    name, parameters = GRADERS.split(recorded)
    if GRADERS.code(name) is not None:
        return recorded
    return name.partition("@")[0] + ("" if parameters is None else f":{parameters}")


def check_recorded(spec: str) -> None:
    """Tell whether the grader that a record names is there; no code is run for it. Raises `RegistryError`."""
    GRADERS.load_recorded(GRADERS.split(spec)[0])


def missing_graders(named: Iterable[str]) -> Mapping[str, str]:
    """Map graders that tasks name (`Task.grader`) and that cannot be had to the reason; no code is run."""
    reasons = {}
    for spec in dict.fromkeys(named):
        first, _, second = spec.partition("|")
        rule = second if first == OPEN else spec
        try:
            if rule:
                check_recorded(rule)
                load_grader(rule)
        except SaccadeError as error:
            reasons[spec] = str(error)
    return reasons


def full_spec(spec: str) -> str:
    """Return `spec` with its version. Raises `RegistryError`."""
    name, parameters = GRADERS.split(spec)
    return GRADERS.full_name(name) + ("" if parameters is None else f":{parameters}")


@cache
def _with_parameters(spec: str, parameters: str) -> Grader:
    """Return the grader `spec`, a frozen dataclass, with its `parameters` (`name=value,...`) set anew."""
    grader: object = GRADERS.load(spec)
    own = {field.name: getattr(grader, field.name) for field in fields(grader)} if is_dataclass(grader) else {}
    changed = dict(own)
    for item in parameters.split(","):
        name, equals, text = item.partition("=")
        if not equals or name.strip() not in own:
            listed = f"it has {', '.join(own)}" if own else "it has none"
            raise SettingsError(f"{item!r} is no parameter of grader {spec}: {listed}.")
        changed[name.strip()] = _value(text)
    try:
        return cast(Grader, TypeAdapter(type(grader)).validate_python(changed))
    except ValidationError as error:
        problems = "; ".join(f"{problem['loc'][0]}: {problem['msg']}" for problem in error.errors())
        raise SettingsError(f"grader {spec}:{parameters} cannot be: {problems}.") from error


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def grader_for(task: Task) -> Grader:
    """Return the grader that fits the type of the task's answer."""
    return load_grader(DEFAULTS[task.answer_type])


# The detail of the score `correct` is JSON: `{"grader": "number@1", "extracted": "7", "reason": "..."}`, for a judge
# without a verdict also `"invalid"`. A task that cannot be graded has the score without a value, and the reason.


@dataclass(frozen=True, slots=True)
class Grade:
    """The origin of a score."""

    grader: str
    """`name@version`, or `judge:` and the model; empty if the detail is not ours."""
    extracted: str = ""
    """The extracted answer."""
    reason: str = ""
    invalid: str = ""
    """Of a judge: why there is no verdict."""


def grader_id(task: Task, grader: str = "") -> str:
    """Return the full id of the grader of a task: that one, else the one that the task names, else the one for its
    type.

    Raises:
        RegistryError: there is no such grader, or the task names code that was not loaded: a record runs none.
    """
    named = task.rule
    if named and not grader:
        check_recorded(named)
    return full_spec(grader or named or DEFAULTS[task.answer_type])


def scored_by_rule(answer: str | None, task: Task, grader: str = "") -> Score:
    """Return the verdict of the grader of that id, or else of the task's, see `grader_id`.

    Raises:
        RegistryError: there is no such grader.
        SettingsError: it has no such parameters.
    """
    name = grader_id(task, grader)
    try:
        verdict = seam(load_grader(name).grade, Verdict)(answer, task)
    except GradingError as error:
        return grade_score(None, Grade(name, reason=str(error)))
    return grade_score(verdict.correct, Grade(name, verdict.extracted, verdict.reason))


def rehearse(spec: str, task: Task) -> None:
    """Have a grader of a user's own grade no answer and the gold one, before a model is asked.

    Raises:
        OwnCodeError: it raises, or what it gives is no verdict.
    """
    if spec and GRADERS.code(GRADERS.split(spec)[0]) is not None:
        for answer in (None, task.answer or ""):
            scored_by_rule(answer, task, spec)


def grade_score(value: float | None, grade: Grade) -> Score:
    """Return a score `correct` with that value, which came about so."""
    fields = {name: clean_text(text) for name, text in asdict(grade).items() if text or name != "invalid"}
    return Score(name=CORRECT, value=value, detail=json.dumps(fields, ensure_ascii=False))


def grade_of(detail: str) -> Grade:
    """Return what the detail of a score says; all of it is the reason where it is not ours."""
    try:
        data = json.loads(detail)
    except ValueError:
        data = None
    if not isinstance(data, Mapping) or not data.keys() >= {"grader", "extracted", "reason"}:
        return Grade("", reason=detail)
    return Grade(str(data["grader"]), str(data["extracted"]), str(data["reason"]), str(data.get("invalid", "")))
