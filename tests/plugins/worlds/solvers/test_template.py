"""A program's text: names assigned in front, nothing of Saccade in it, short enough to be written by a model."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from saccade.plugins.worlds.solvers import programs
from saccade.plugins.worlds.solvers.questions import program_text, solver_for

QUESTIONS = (
    "How many pentagons are in the image?",
    "How many squares are in the image?",
    "How many rows and columns are in the table?",
    "How many times do the blue and red lines cross?",
    "Are the two circles touching?",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_self_contained_and_short(question: str) -> None:
    solver = solver_for(question)
    assert solver is not None
    text = solver.program("photo")
    tree = ast.parse(text)
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
    }
    assert imported <= {"cv2", "numpy", "PIL"}
    assert "saccade" not in text
    assert "\nimage = photo\n" in text
    assert ast.get_docstring(tree) is None
    assert ast.unparse(tree.body[-1]).startswith("print(")
    assert len(text.splitlines()) <= 95


def test_every_program_has_a_question() -> None:
    solvers = [solver_for(question) for question in QUESTIONS]
    files = {path.stem for path in Path(programs.__file__).parent.glob("*.py")} - {"__init__", "parameters"}
    assert {solver.source for solver in solvers if solver} == files


def test_wrong_names_are_refused() -> None:
    with pytest.raises(ValueError, match="form, image"):
        program_text("rows_columns", {"image": "image_0"})
    with pytest.raises(ValueError, match="nested_squares wants image"):
        program_text("nested_squares", {"image": "image_0", "sides": "5"})
