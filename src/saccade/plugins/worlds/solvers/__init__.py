"""From a question's wording to its solver: a program, and what the wording settles in it.

Any wording of the right kind is understood, not only published ones. A question that asks for more than its family
has, e.g. for shapes of one colour, gets no solver: better none than a wrong number.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from PIL import ImageColor

from saccade.record.task import parse

# The text of a program, with its names assigned in front.
#
# A program file is a script over names that it imports from `programs/parameters.py`. Here that import gives way to
# assignments, and the file's docstring goes; all else stays as it is written.

_PROGRAMS = "saccade.plugins.worlds.solvers.programs"


def program_text(name: str, assigned: Mapping[str, str]) -> str:
    """Return the program `name`, with each of its open names assigned to the expression given for it.

    Raises `ValueError`: the names given are not those that the program wants.
    """
    imports, wanted, body = _split(name)
    if set(wanted) != set(assigned):
        raise ValueError(f"the program {name} wants {', '.join(wanted)}; given: {', '.join(assigned) or 'nothing'}")
    lines = "\n".join(f"{parameter} = {assigned[parameter]}" for parameter in wanted)
    return f"{imports}\n\n{lines}\n\n{body}\n"


@cache
def _split(name: str) -> tuple[str, tuple[str, ...], str]:
    """Import lines, names wanted, and the rest of a program file."""
    source = files(_PROGRAMS).joinpath(f"{name}.py").read_text(encoding="utf-8")
    lines = source.splitlines()
    nodes = parse(source).body
    place, parameters = next(
        (place, node)
        for place, node in enumerate(nodes)
        if isinstance(node, ast.ImportFrom) and node.module == f"{_PROGRAMS}.parameters"
    )
    first = nodes[1].lineno - 1
    imports = "\n".join(lines[first : parameters.lineno - 1]).strip()
    rest = "\n".join(lines[parameters.end_lineno :]).strip()
    assert place > 0, "a program opens with its docstring"
    return imports, tuple(sorted(alias.name for alias in parameters.names)), rest


@dataclass(frozen=True, slots=True)
class Solver:
    """A program for one question."""

    family: str
    """The kind of question: `counting`, `line-crossings`, `nested-squares`, `rows-columns` or `two-circles`."""
    source: str
    """Name of the program file."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """Values that the wording settles, by the names that the program uses: strings, numbers, and tuples of them."""

    def program(self, image_name: str = "image_clue_0") -> str:
        """Return Python that finds a Pillow image under `image_name` and prints the answer as its last line.

        It needs NumPy, OpenCV and Pillow. The answer is plain: `5`, `Yes`; for rows and columns in the form that the
        question asks for.
        """
        given = {name: _literal(value) for name, value in self.parameters.items()}
        return program_text(self.source, {"image": image_name, **given})


def _literal(value: object) -> str:
    """Return `repr` with double quotes around strings, as the programs write them."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))})"
    return f'"{value}"' if isinstance(value, str) else repr(value)


SIDES = {"circle": 0, "ring": 0, "triangle": 3, "pentagon": 5, "hexagon": 6, "heptagon": 7, "octagon": 8}
"""Shapes that can be counted wherever they lie; squares are counted where they do not cross."""

_COUNT = re.compile(r"how many|\bcount|number of|\btotal\b")
_LINES = re.compile(r"\b(lines?|plots?|curves?|paths?|graphs?|polylines?)\b")
_CROSS = re.compile(r"\b(cross\w*|intersect\w*|meet\w*|touch\w*)\b")
_TOUCH = re.compile(r"\b(touch\w*|tangent|contact|intersect\w*)\b")
_OVERLAP = re.compile(r"\boverlap\w*")
_SHAPE = re.compile(rf"\b({'|'.join(SIDES)}|square)s?\b")
_NARROWED = re.compile(
    r"\b(bigger|larger|smaller|biggest|largest|smallest|thick\w*|thin\w*|filled|solid|left|right|above|below|"
    r"upper|lower|top|bottom|difference|cross\w*|touch\w*|intersect\w*|not)\b"
)
_SOME_ROWS = re.compile(r"\b(cells?|words?|empty|at least|at most|more than|fewer than|less than|whose)\b")
# How rows and columns are wanted, by the example that a question gives.
_PAIR = re.compile(r"\(\s*(\d+|rows?)\s*,\s*(\d+|columns?)\s*\)")
_BARE_PAIR = re.compile(r"\b\d+\s*,\s*\d+\b")


def solver_for(question: str) -> Solver | None:
    """Return the solver of a question, or None if it is of no family known here."""
    words = " ".join(question.lower().replace("colour", "color").split())
    for family in (_rows_columns, _line_crossings, _two_circles, _counting):
        solver = family(words)
        if solver is not None:
            return solver
    return None


def colours_in(words: str) -> tuple[str, ...]:
    """Return the names of colours in a text, in order, each once."""
    colours = (word for word in re.findall(r"[a-z]+", words) if word in ImageColor.colormap)
    return tuple(dict.fromkeys(colours))


def _rows_columns(words: str) -> Solver | None:
    rows, columns = re.search(r"\brows?\b", words), re.search(r"\bcol(umn)?s?\b", words)
    if not (_COUNT.search(words) and (rows or columns)) or _SOME_ROWS.search(words):
        return None
    if not (rows and columns):
        form = "{0}" if rows else "{1}"
    elif _PAIR.search(words):
        form = "({0},{1})"
    else:
        form = "{0}, {1}" if _BARE_PAIR.search(words) else "rows={{{0}}} columns={{{1}}}"
    return Solver("rows-columns", "rows_columns", {"form": form})


def _line_crossings(words: str) -> Solver | None:
    colours = colours_in(words)
    if not (_LINES.search(words) and _CROSS.search(words) and _COUNT.search(words) and len(colours) == 2):
        return None
    return Solver("line-crossings", "line_crossings", {"colours": colours})


def _two_circles(words: str) -> Solver | None:
    if not re.search(r"\b(two|2|both|the|these)( \w+)? circles\b", words) or _COUNT.search(words):
        return None
    # Overlapping circles touch as well, so a question for either is one for touching.
    if _TOUCH.search(words):
        return Solver("two-circles", "two_circles", {"question": "touching"})
    return Solver("two-circles", "two_circles", {"question": "overlapping"}) if _OVERLAP.search(words) else None


def _counting(words: str) -> Solver | None:
    shapes = {match[1] for match in _SHAPE.finditer(words)}
    if not _COUNT.search(words) or len(shapes) != 1 or colours_in(words) or _NARROWED.search(words):
        return None
    shape = shapes.pop()
    if shape == "square":
        return Solver("nested-squares", "nested_squares")
    return Solver("counting", "shapes", {"sides": SIDES[shape]})
