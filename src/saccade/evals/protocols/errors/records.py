"""What the error protocol finds: VISTA's classes E1 to E6 (appendix, error definitions; table 1).

E1, E2, E3 and E5 are found by rules from what was written and what came back. E4 and E6 are estimates: no rule can see
all wrong contents or all wrong reasoning. One sample may have several errors.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field, NonNegativeInt

from saccade.evals.protocols.findings import Findings, Rate, SampleRow
from saccade.record.base import Name, Record, Text


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
        """What it is called."""
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
        """Whether an error of that class is in the sample."""
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
