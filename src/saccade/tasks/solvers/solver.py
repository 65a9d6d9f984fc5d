"""What a solver is: a family of questions, the program that answers it, and what the wording settles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from saccade.tasks.solvers.template import program_text


@dataclass(frozen=True, slots=True)
class Solver:
    """A program for one question."""

    family: str
    """The kind of question: `counting`, `line-crossings`, `nested-squares`, `rows-columns` or `two-circles`."""
    source: str
    """Name of the program file."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """What the wording settles, by the name that the program uses: strings, numbers, and tuples of them."""

    def program(self, image_name: str = "image_clue_0") -> str:
        """Python that finds a Pillow image under `image_name` and prints the answer as its last line.

        It needs NumPy, OpenCV and Pillow. The answer is plain: `5`, `Yes`; for rows and columns in the form that the
        question asks for.
        """
        given = {name: _literal(value) for name, value in self.parameters.items()}
        return program_text(self.source, {"image": image_name, **given})


def _literal(value: object) -> str:
    """`repr` with double quotes around strings, as the programs write them."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))})"
    return f'"{value}"' if isinstance(value, str) else repr(value)
