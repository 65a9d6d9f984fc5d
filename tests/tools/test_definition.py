"""What a model is told of wrong arguments: each mistake, what was given, and which arguments there are."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field

from saccade.tools.context import CallProblem, ProblemKind
from saccade.tools.definition import ToolModel, Units, Xyxy, check_arguments, mistakes, pixel_box, pixel_point, region


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


SIZE = (100, 50)


@pytest.mark.parametrize(
    ("box", "units", "expected"),
    [
        ((1, 2, 3, 4), "pixels", (1, 2, 3, 4)),
        ((1.9, 2.9, 3.1, 4.1), "pixels", (1, 2, 4, 5)),
        ((-9, -9, 1e308, 1e308), "pixels", (0, 0, 100, 50)),
        ((99.5, 49.5, 200, 200), "pixels", (99, 49, 100, 50)),
        ((0, 0, 1, 1), "pixels", (0, 0, 1, 1)),
        ((0, 0, 1, 1), "normalized", (0, 0, 100, 50)),
        ((0.25, 0.5, 0.5, 1), "normalized", (25, 25, 50, 50)),
        ((0.101, 0.1, 0.109, 0.2), "normalized", (10, 5, 11, 10)),
    ],
)
def test_boxes(box: Xyxy, units: Units, expected: tuple[int, int, int, int]) -> None:
    assert pixel_box(box, units, SIZE) == expected
    assert region(box, units, SIZE) == expected
    assert region(None, units, SIZE) == (0, 0, 100, 50)


@pytest.mark.parametrize(
    ("box", "units", "said"),
    [
        ((3, 2, 3, 4), "pixels", r"The box \[3, 2, 3, 4\] is empty"),
        ((1, 4, 3, 4), "pixels", r"The box \[1, 4, 3, 4\] is empty"),
        ((3, 2, 1, 4), "pixels", "is empty"),
        ((100, 2, 120, 4), "pixels", "0 × 2 pixels are inside the image, which is 100 × 50; at least 1 × 1"),
        ((1, -9, 3, 0), "pixels", "2 × 0 pixels are inside"),
        ((0, 0, 1.001, 1), "normalized", r"\[0, 0, 1.001, 1\] is not normalized"),
        ((-0.001, 0, 1, 1), "normalized", "is not normalized"),
    ],
)
def test_boxes_that_are_refused(box: Xyxy, units: Units, said: str) -> None:
    with pytest.raises(CallProblem, match=said):
        pixel_box(box, units, SIZE)


def test_the_smallest_side_and_the_hint_of_fractions() -> None:
    assert pixel_box((0, 0, 4, 4), "pixels", SIZE, 4) == (0, 0, 4, 4)
    for box in ((0, 0, 3, 4), (0, 0, 4, 3)):
        with pytest.raises(CallProblem, match="at least 4 × 4 are needed") as caught:
            pixel_box(box, "pixels", SIZE, 4)
        assert "normalized" not in str(caught.value)
    for box, units, hint in (((0.1, 0, 1, 1), "pixels", True), ((0, 0, 0.01, 0.01), "normalized", False)):
        with pytest.raises(CallProblem) as caught:
            pixel_box(box, units, SIZE, 4)  # type: ignore[arg-type]
        assert ('If these are fractions, say units="normalized".' in str(caught.value)) is hint


def test_points() -> None:
    assert pixel_point((100, 50), "pixels", SIZE) == (100, 50)
    assert pixel_point((0, 0), "pixels", SIZE) == (0, 0)
    assert pixel_point((0.25, 0.5), "normalized", SIZE) == (25, 25)
    for point in ((100.5, 5), (5, 50.5), (-0.5, 5), (5, -0.5)):
        with pytest.raises(CallProblem, match="is outside the image, which is 100 × 50"):
            pixel_point(point, "pixels", SIZE)
