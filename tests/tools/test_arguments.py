"""What a model is told of wrong arguments: each mistake, what was given, and which arguments there are."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field

from saccade.tools.arguments import ToolModel, check_arguments, mistakes
from saccade.tools.problem import CallProblem, ProblemKind


class Inner(ToolModel):
    """A table in the arguments."""

    depth: int = 0


class Arguments(ToolModel):
    """Arguments of every kind."""

    box: tuple[int, int]
    label: str = ""
    inner: Inner = Inner()
    many: tuple[int, ...] = Field(default=(), max_length=2)


END = ". Arguments are box, label (optional), inner (optional), many (optional)."


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        (None, "schema", "Arguments are a JSON object, not null"),
        ("box", "schema", "Arguments are a JSON object, not a text"),
        ([1], "schema", "Arguments are a JSON object, not a list"),
        (True, "schema", "Arguments are a JSON object, not a truth value"),
        (3, "schema", "Arguments are a JSON object, not a number"),
        (3.5, "schema", "Arguments are a JSON object, not a number"),
        ((1,), "schema", "Arguments are a JSON object, not tuple"),
        ({}, "schema", "The argument 'box' is missing"),
        ({"box": [1]}, "argument_format", "The argument 'box' is wrong: the list is too short"),
        ({"box": [1, 2], "labl": 1}, "argument_name", "There is no argument 'labl'. Did you mean 'label'"),
        ({"box": [1, 2], "inner": {"dept": 1}}, "argument_name", "There is no argument 'inner.dept'"),
        (
            {"boxs": [1, 2]},
            "argument_name",  # the misspelt name is the cause, so it comes first
            "There is no argument 'boxs'. Did you mean 'box'; The argument 'box' is missing",
        ),
        (
            {"box": [1, "2"]},
            "argument_format",
            "The argument 'box.1' is wrong: Input should be a valid integer (got \"2\")",
        ),
        ({"box": {1}}, "argument_format", "Arguments hold something that JSON cannot (use finite numbers, texts and"),
        ({"box": float("nan")}, "argument_format", "Arguments hold something that JSON cannot"),
    ],
)
def test_what_is_said_of_a_mistake(arguments: Any, kind: str, said: str) -> None:
    with pytest.raises(CallProblem) as caught:
        check_arguments(Arguments, arguments)
    assert caught.value.problem.kind == kind
    assert str(caught.value) == caught.value.problem.message
    assert caught.value.problem.message.startswith(said)
    assert caught.value.problem.message.endswith(END)
    assert (
        "; ".join(problem.message for problem in mistakes(Arguments, arguments)) + END == caught.value.problem.message
    )


def test_four_mistakes_are_shown_and_the_others_counted() -> None:
    for count, more in ((4, ""), (5, "; and 1 more"), (9, "; and 5 more")):
        wrong = {"box": [1, 2], **{f"zz{number}": 0 for number in range(count)}}
        with pytest.raises(CallProblem) as caught:
            check_arguments(Arguments, wrong)
        message = caught.value.problem.message
        assert message.count("There is no argument") == 4
        assert message.endswith(more + END)
        assert ("more" in message) is bool(more)
        assert len(mistakes(Arguments, wrong)) == count
    assert mistakes(Arguments, {"box": [1, 2]}) == ()


def test_long_values_are_cut_and_a_mistake_is_said_once() -> None:
    for length, shown in ((78, '"' + "x" * 78 + '"'), (79, '"' + "x" * 79 + "...")):
        with pytest.raises(CallProblem) as caught:
            check_arguments(Arguments, {"box": ["x" * length, 1]})
        assert f"(got {shown})" in caught.value.problem.message
    name = "y" * 90
    with pytest.raises(CallProblem, match="There is no argument '" + "y" * 80 + "...'"):
        check_arguments(Arguments, {"box": [1, 2], name: 1})
    found = check_arguments(Arguments, {"box": [1, 2], "many": [3]})
    assert (found.box, found.many, found.label) == ((1, 2), (3,), "")


def test_the_kind_of_the_first_mistake_is_that_of_the_call() -> None:
    kinds = [problem.kind for problem in mistakes(Arguments, {"many": [1, 2, 3], "zz": 1})]
    assert kinds == [ProblemKind.ARGUMENT_NAME, ProblemKind.SCHEMA, ProblemKind.ARGUMENT_FORMAT]
