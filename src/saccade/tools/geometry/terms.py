"""Logic forms of Geometry3K as terms: `Equals(LengthOf(Line(A, B)), 4x-17)` and its like.

Grammar of Lu et al., Inter-GPS (ACL 2021): a predicate with arguments, each a predicate or a piece of text.
"""

from __future__ import annotations

from dataclasses import dataclass


class FormError(ValueError):
    """A statement that cannot be read, or means nothing here; says why, for the model."""


@dataclass(frozen=True, slots=True)
class Term:
    """A predicate with its arguments, or a text that has none."""

    head: str
    args: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return f"{self.head}({','.join(map(str, self.args))})" if self.args else self.head

    @property
    def names(self) -> tuple[str, ...]:
        """The texts of its arguments, as of `Line(A, B)`."""
        return tuple(arg.head for arg in self.args if not arg.args)


_DEPTH = 12
_CHARACTERS = 400


def read_term(text: str) -> Term:
    """The term that a text writes.

    Raises:
        FormError: brackets that do not match, something behind the last one, or more than 400 characters.
    """
    if len(text) > _CHARACTERS:
        raise FormError(f"it has more than {_CHARACTERS} characters")
    return _read(text.strip(), 0)


def _read(text: str, depth: int) -> Term:
    if depth > _DEPTH:
        raise FormError("its brackets are nested too deeply")
    name, bracket, rest = text.partition("(")
    if not bracket or not name.strip().replace("_", "").isalpha() or len(name.strip()) < 2:
        if not text:
            raise FormError("an argument is empty")
        return Term(text)
    if not rest.endswith(")"):
        raise FormError(f"the bracket of {name.strip()} is not closed at its end")
    return Term(name.strip(), tuple(_read(part, depth + 1) for part in _split(rest[:-1])))


def _split(text: str) -> list[str]:
    parts, level, start = [], 0, 0
    for place, sign in enumerate(text):
        level += (sign in "({") - (sign in ")}")
        if level < 0:
            raise FormError("a bracket closes that was not opened")
        if sign == "," and level == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    if level:
        raise FormError("a bracket is not closed")
    return [*parts, text[start:].strip()]
