"""Which solver a wording gets: published wordings, paraphrases, and questions that ask for something else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from saccade.plugins.worlds.solvers.questions import solver_for

CURLY, PAIR, BARE = "rows={{{0}}} columns={{{1}}}", "({0},{1})", "{0}, {1}"
UNDERSTOOD: list[tuple[str, str, Mapping[str, object]]] = [
    ("How many circles are in the image? Answer with only the number in numerical format.", "shapes", {"sides": 0}),
    ("Count the pentagons in the image. Answer with a number in curly brackets e.g. {3}.", "shapes", {"sides": 5}),
    ("What is the number of hexagons shown?", "shapes", {"sides": 6}),
    ("How many overlapping rings do you see?", "shapes", {"sides": 0}),
    ("Count total number of squares in the image. Answer in curly brackets e.g. {3}.", "nested_squares", {}),
    ("How many squares are in the image? Please answer with a number in curly brackets.", "nested_squares", {}),
    ("Squares are drawn inside one another here. How many are there in total?", "nested_squares", {}),
    ("Count the number of rows and columns. For example, rows={5} columns={6}", "rows_columns", {"form": CURLY}),
    ("How many rows and columns are in the table? Use (row, column), e.g., (5,6)", "rows_columns", {"form": PAIR}),
    ("How many rows and columns, e.g. (5,6), has the table that is shown above?", "rows_columns", {"form": PAIR}),
    ("How many rows and how many columns has the grid? For example: 5, 6", "rows_columns", {"form": BARE}),
    ("Count the rows of the table.", "rows_columns", {"form": "{0}"}),
    ("How many columns does the grid have?", "rows_columns", {"form": "{1}"}),
    ("How many times do the blue and red line plots cross?", "line_crossings", {"colours": ("blue", "red")}),
    ("Count the points where the green line meets the RED line.", "line_crossings", {"colours": ("green", "red")}),
    ("How many times do the blue and red lines touch each other?", "line_crossings", {"colours": ("blue", "red")}),
    ("Are the two circles touching each other? Answer with Yes/No.", "two_circles", {"question": "touching"}),
    ("Are the two circles overlapping? Answer with Yes/No.", "two_circles", {"question": "overlapping"}),
    ("Do the two coloured circles overlap?", "two_circles", {"question": "overlapping"}),
    ("Do both circles touch or overlap?", "two_circles", {"question": "touching"}),
]
OTHERS = [
    "What is written on the sign?",
    "How many red circles are in the image?",
    "How many circles and squares are there?",
    "How many circles touch the square?",
    "How many circles are bigger than the others?",
    "How many times do the lines cross?",
    "What colour is the line that crosses the red one?",
    "Which letter is being circled?",
    "Are the two squares touching?",
    "How many words stand in the second row?",
    "How many rows of the table have at least 22 kilometers?",
    "What colour are the two circles?",
]


@pytest.mark.parametrize(("question", "source", "parameters"), UNDERSTOOD)
def test_understood(question: str, source: str, parameters: Mapping[str, object]) -> None:
    solver = solver_for(question)
    assert solver is not None
    assert (solver.source, dict(solver.parameters)) == (source, dict(parameters))


@pytest.mark.parametrize("question", OTHERS)
def test_not_understood(question: str) -> None:
    assert solver_for(question) is None


def test_case_and_line_breaks_do_not_matter() -> None:
    assert solver_for("HOW MANY\n circles\tare there?") == solver_for("how many circles are there?")
