r"""Compare equations, inequalities, intervals, lists of solutions and systems of them.

What a gold answer says decides how it can be met:

* a solution (`x = 3`, `x = \pm 2`, `y = x^2`): by the same solution with or without its name, never by `2x = 6`, which
  may be the question; `f(x) = ...` is `y = ...`. Where the value holds letters, an equal equation will do too.
* a part of the real line (`x > 3`, `[2, 5)`, `x < 1` or `x > 4`, `x \ne 0`): by the same part, however it is written.
* several unknowns (`x = 1, y = 2`): by the same ones in any order, or by the point of their values in order.
* any other equation or inequality: by one that is equal up to a constant factor and the order of its sides; a system by
  such a one for each of its own.
"""

from __future__ import annotations

import cmath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

from saccade.grading.clean import clean, unwrapped
from saccade.grading.equals import NAME, SIGNS, cut, is_name, is_worked, outside, spelt
from saccade.grading.formula import LONGEST, NoValueError, read_formula, same_formula, values_of

Same = Callable[[str, str], bool]
"""Tells whether a value of the answer is a value of the gold answer."""

_SIGN = re.compile(f"[{SIGNS}]")
_OR = re.compile(r"\s+or\s+|∨|\\(?:lor|vee)(?![A-Za-z])|∪|\\cup(?![A-Za-z])", re.IGNORECASE)
_AND = re.compile(
    r";|\n|,(?![0-9]{3}(?![0-9]))|,\s|\s*(?<![A-Za-z])(?:and|und|et|и)(?![A-Za-z])\s*|∧|\\(?:land|wedge)(?![A-Za-z])",
    re.IGNORECASE,
)
_CASES = re.compile(
    r"(?:\\?\{)?\s*\\begin\{(?P<kind>cases|aligned|array|align\*?|gathered)\}(?:\{[lcr]+\})?(?P<inside>.*)\\end\{(?P=kind)\}",
    re.DOTALL,
)
_PLUS_MINUS = re.compile(r"±|\\pm(?![A-Za-z])|\+/-|\+-")
_MINUS_PLUS = re.compile(r"∓|\\mp(?![A-Za-z])")
_SPECIAL = re.compile(
    r"∞|\\infty|\binf(?:inity|ty)?\b|\\mathbb\s?\{?R|ℝ|\\setminus|∖|\\emptyset|∅|\\varnothing|\\\{\s*\\\}"
)
_EMPTY = re.compile(r"\\varnothing|∅|\\\{\s*\\\}")
_INFINITE = re.compile(r"(?P<sign>[-+]?)\s?(?:∞|\\infty|inf(?:inity|ty)?)")
_REALS = re.compile(r"\\mathbb\s?\{?R\}?|ℝ|R|all\sreal\s(?:numbers|x|values)|(?:all\s)?real\snumbers", re.IGNORECASE)
_BUILT = re.compile(
    r"\\?\{\s?(?P<name>[A-Za-z])\s?(?:∈\s?(?:\\mathbb\s?\{?R\}?|ℝ|R))?\s?(?:\||:|\\mid|\\vert)(?P<rule>.*?)\\?\}"
)
_INTERVAL = re.compile(r"(?P<open>[(\[\]])(?P<ends>.*)(?P<close>[)\]\[])", re.DOTALL)
_ARGUMENT = re.compile(r"\s?\(\s?([a-z])\s?\)")
_COMMA = re.compile(",")
_FLIPPED: Final = {"<": ">", ">": "<", "≤": "≥", "≥": "≤", "=": "=", "≈": "≈", "≠": "≠"}
_INDEX = re.compile(r"_\s?(?:\{\w{1,8}\}|\w)|(?<=[A-Za-z])[0-9]{1,2}")
_One = TypeVar("_One")
_ERROR: Final = 1e-9
_MOST: Final = 16
"""Statements that are compared."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Sides with the signs between them, `0 < x < 5`; a value alone has one side."""

    sides: tuple[str, ...]
    signs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """What a text states: alternatives of statements that hold together."""

    either: tuple[tuple[Statement, ...], ...]

    @property
    def all(self) -> tuple[Statement, ...]:
        """All statements in their order."""
        return tuple(one for together in self.either for one in together)


def same_statement(prediction: str, gold: str, same: Same) -> bool | None:
    """Tell whether an answer states what the gold answer does; None where both are only values, or too long."""
    if max(len(prediction), len(gold)) > LONGEST:
        return None
    said, target = both = _said(prediction), _said(gold)
    pairs = [_INTERVAL.fullmatch(one.sides[0]) for one in said.all if not one.signs]
    if len(pairs) == len(said.all) > 1 == len(target.all) and all(pairs) and not re.search(r"∪|\\cup", prediction):
        return False  # "(2, 5) or (2, 4)": two points
    if not (_states(said, prediction) or _states(target, gold)):
        return None
    if len(said.all) > _MOST or len(target.all) > _MOST:
        return False
    if _same(said, target, same):
        return True
    # Two values of which neither is several ones or a part of the line are left to their own comparison.
    single = all(len(one.all) == 1 and not one.all[0].signs and len(_values(one.all[0].sides[0])) == 1 for one in both)
    return None if single and (_region(said) is None or _region(target) is None) else False


def _same(said: Said, target: Said, same: Same) -> bool:
    theirs, ours = _solutions(said), _solutions(target)
    if len(target.either) > 1 and any(len(dict(_solutions(Said((one,))) or ())) > 1 for one in target.either):
        return _matched(said.either, target.either, lambda a, b: _same(Said((a,)), Said((b,)), same))
    if theirs is not None and ours is not None and _same_solutions(theirs, ours, same):
        return True
    if _same_point(said, ours or (), same) or _same_point(target, theirs or (), lambda value, one: same(one, value)):
        return True
    parts = _region(said), _region(target)
    if parts[0] is not None and parts[1] is not None:
        return _same_region(parts[0], parts[1])
    if ours is not None and (theirs is not None or all(_is_constant(value) for _, value in ours)):
        named = theirs is not None and all(name for name, _ in (*theirs, *ours))
        if not named or any(_is_constant(value) for _, value in ours) or _functions_differ(theirs or (), ours):
            return False
    if parts[1] is not None or not any(one.signs for one in target.all):
        return False
    return _same_relations(said, target, same)


def _plain_text(text: str) -> str:
    return spelt(_EMPTY.sub(r"\\emptyset", unwrapped(clean(text)).replace("$", "")))


def _said(text: str) -> Said:
    plain = _plain_text(text)
    cases = _CASES.fullmatch(plain.strip())
    if cases is not None:
        rows = [row.replace("&", "").strip(" ,") for row in re.split(r"\\\\", cases["inside"])]
        return Said((tuple(_statement(row) for row in rows if row),))
    either = []
    for part in cut(plain, _OR):
        together = [piece.strip() for piece in cut(part, _AND) if piece.strip(" .")]
        either.append(tuple(_statement(piece) for piece in together))
    return Said(tuple(either))


def _statement(text: str) -> Statement:
    sides = tuple(side.strip() for side in cut(text, _SIGN))
    signs = tuple(match[0] for match in outside(text, _SIGN))
    return Statement(sides[1:], ()) if len(sides) == 2 and not sides[0] and signs == ("=",) else Statement(sides, signs)


def _states(said: Said, text: str) -> bool:
    """Tell whether there is more than one value: a relation, several values, or a part of the real line."""
    values = [value for one in said.all for side in one.sides for value in _values(side)]
    several = len(values) > 1 and all(map(_is_formula, values))
    special = _PLUS_MINUS.search(text) or _SPECIAL.search(text) or _BUILT.fullmatch(_plain_text(text).strip())
    return any(one.signs for one in said.all) or several or special is not None


def _is_formula(text: str) -> bool:
    return read_formula(text) is not None


# Solutions: `name = value` one by one, the name empty where none is said.

_Solutions = tuple[tuple[str, str], ...]


def _solutions(said: Said) -> _Solutions | None:
    """Return the names and values that are stated; None where anything else is."""
    found: list[tuple[str, str]] = []
    for statement in said.all:
        solved = _solved(statement, found[-1][0] if found else "")
        if solved is None:
            return None
        found.extend(solved)
    one_unknown = len({_plain(name) for name, _ in found if name}) <= 1
    return tuple(found) if one_unknown or len(said.either) == 1 else None


def _solved(statement: Statement, name: str) -> list[tuple[str, str]] | None:
    sides = statement.sides
    if not statement.signs:
        return [(name, value) for value in _values(sides[0])]
    if statement.signs == ("∈",) and NAME.fullmatch(sides[0]):
        return [(sides[0], value) for value in _values(sides[1])]
    if set(statement.signs) - {"=", "≈"}:
        return None
    points = _coordinates(sides[0]), _coordinates(sides[1])
    if len(sides) == 2 and len(points[0]) == len(points[1]) > 1 and all(map(NAME.fullmatch, points[0])):
        return list(zip(*points, strict=True))
    if not is_name(sides[0]):
        if len(sides) != 2 or NAME.fullmatch(sides[1]) is None or _holds(sides[0], sides[1]):
            arithmetic = all(_is_constant(side) for side in sides) and agree(sides)
            worked = _OPERATION.match(sides[0]) is not None and _OPERATION.search(sides[-1]) is None
            return [("", sides[-1])] if arithmetic or worked else None
        sides = (sides[1], sides[0])
    if ("≈" not in statement.signs and not agree(sides[1:])) or (
        NAME.fullmatch(sides[0]) and any(_holds(side, sides[0]) for side in sides[1:])
    ):
        return None
    if len(sides) > 2 and all(NAME.fullmatch(side) for side in sides[:-1]):  # x = y = 2
        return [(side, value) for side in sides[:-1] for value in _values(sides[-1])]
    return [(sides[0], value) for value in _values(sides[-1])]


_OPERATION = re.compile(r"\\(?:i?int|oint|sum|prod|lim)(?![A-Za-z])")


def agree(sides: Sequence[str]) -> bool:
    """Tell whether a chain contradicts itself nowhere: `10/3 = 3.33` in numbers and `2x = x + x` in letters agree."""
    formulas = [read_formula(side) for side in sides]
    values = [one.values[0] for one in formulas if one and not one.unit and len(set(one.values)) == 1]
    letters = [frozenset(re.findall(r"(?<![A-Za-z\\])[A-Za-z]", _spaced(side))) for side in sides]
    for (one, side, own), (other, next_side, theirs) in pairwise(zip(formulas, sides, letters, strict=True)):
        in_letters = one and other and own == theirs and len({*one.values}) > 1 and not (one.unit or other.unit)
        if in_letters and not same_formula(side, next_side):
            return False
    return all(abs(value - values[-1]) <= abs(values[-1]) / 100 for value in values)


def _is_braced(text: str) -> bool:
    return (text.startswith("\\{") and text.endswith("\\}")) or (text.startswith("{") and text.endswith("}"))


def _values(text: str) -> list[str]:
    r"""Return the values in `1`, `\{1, 2\}`, `1 \pm 2`."""
    if _is_braced(text):
        inside = text.removeprefix("\\").removeprefix("{").removesuffix("}").removesuffix("\\")
        return [value.strip() for part in cut(inside, _COMMA) for value in _values(part.strip())]
    if _PLUS_MINUS.search(text) is None:
        return [text]
    plus, minus = (
        _MINUS_PLUS.sub(other, _PLUS_MINUS.sub(sign, text)).strip().removeprefix("+") for sign, other in ("+-", "-+")
    )
    return [plus, minus]


def _holds(text: str, name: str) -> bool:
    """Tell whether the letter of `name` occurs in `text`; a name of several letters (a word, `AB`) does not."""
    match = NAME.fullmatch(name)
    letter = re.sub(r"['\s]", "", match["letter"]) if match else name
    return re.search(rf"(?<![A-Za-z\\]){re.escape(letter)}(?![A-Za-z_])", _spaced(text)) is not None


def _spaced(text: str) -> str:
    """Return `text` with its products of letters set apart: `2xy` is `2 x y`."""
    return re.sub(r"(?<![\\A-Za-z])[A-Za-z]{2,3}(?![A-Za-z])", lambda run: " ".join(run[0]), text)


def _is_constant(text: str) -> bool:
    formula = read_formula(text)
    if formula is None:
        return is_worked(text)
    return all(_is_constant_part(part) for part in (formula.parts or (formula,)))


def _is_constant_part(part: object) -> bool:
    values = getattr(part, "values", ())
    return len(set(values)) <= 1


def _same_solutions(theirs: _Solutions, ours: _Solutions, same: Same) -> bool:
    several = len(ours) > 1 and len({_plain(name) for name, _ in ours}) == 1
    if len(theirs) != len(ours) or (len(ours) > 1 and not several and not all(name for name, _ in theirs)):
        return False
    if several and len({_plain(name) for name, _ in theirs}) > 1:
        return False
    return _matched(
        theirs,
        ours,
        lambda a, b: _same_name(a[0], b[0], several) and same(_renamed(a, b[0]), b[1]),
    )


def _plain(name: str) -> str:
    return _INDEX.sub("", name)


def _renamed(one: tuple[str, str], name: str) -> str:
    """Return the value of a function with its argument named as in `name`: `f(t) = t^2` is `f(x) = x^2`."""
    matches = NAME.fullmatch(one[0]), NAME.fullmatch(name)
    own, other = (_ARGUMENT.fullmatch(match["argument"] or "") if match else None for match in matches)
    if own is None or other is None or own[1] == other[1]:
        return one[1]
    swapped = {own[1]: other[1], other[1]: own[1]}
    return re.sub(
        rf"(?<![A-Za-z\\])[{own[1]}{other[1]}](?![A-Za-z_])", lambda letter: swapped[letter[0]], _spaced(one[1])
    )


def _same_name(name: str, other: str, several: bool) -> bool:
    """Tell whether two names may stand for one another: one is left out or a word, or a function and `y`."""
    if several:
        name, other = _plain(name), _plain(other)
    matches = NAME.fullmatch(name), NAME.fullmatch(other)
    if matches[0] is None or matches[1] is None:
        return True
    functions = [match["argument"] is not None for match in matches if match]
    if functions[0] != functions[1]:
        plain, applied = (other, matches[0]) if functions[0] else (name, matches[1])
        return plain.strip() == _head(applied) or (plain.strip() == "y" and len(_head(applied)) == 1)
    if all(functions):
        name, other = _head(matches[0]), _head(matches[1])
    return _one_spelling(name) == _one_spelling(other)


def _head(match: re.Match[str]) -> str:
    """Return the function of `f(x)`, `f'(x)`, `f^{-1}(x)` without its argument."""
    return match[0][: match.start("argument")].strip() if match["argument"] else match[0]


def _one_spelling(name: str) -> str:
    r"""Return `A_{n}` as `a_n`, `\frac{dy}{dx}` as `y'`."""
    return re.sub(r"^(?:\\frac)?d(\w)/?d\w$", r"\1'", re.sub(r"[\s{}]", "", name.casefold()))


def _functions_differ(theirs: _Solutions, ours: _Solutions) -> bool:
    names = [NAME.fullmatch(name) for name, _ in (*theirs, *ours)]
    heads = [match[0] for match in names if match and match["argument"]]
    return len(heads) > 1 and heads[0] != heads[1]


def _same_point(point: Said, unknowns: _Solutions, same: Same) -> bool:
    """Tell whether a point, `(1, 2)`, is that of several unknowns in the order of their names: `x = 1, y = 2`."""
    parts = _coordinates(point.all[0].sides[0]) if len(point.all) == 1 and not point.all[0].signs else ()
    names = sorted(name for name, _ in unknowns)
    if not parts or len(parts) != len(names) or len({*names, ""}) <= len(names):
        return False
    return _same_solutions(tuple(zip(names, parts, strict=True)), unknowns, same)


def _coordinates(text: str) -> tuple[str, ...]:
    inside = text[1:-1] if text.startswith("(") and text.endswith(")") else ""
    parts = tuple(part.strip() for part in cut(inside, _COMMA))
    return parts if len(parts) > 1 else ()


# The real line: conditions on one unknown whose bounds are constants, compared at and between all of their bounds.


@dataclass(frozen=True, slots=True)
class _Bound:
    sign: str
    at: float

    def met(self, x: float) -> bool:
        if self.at in (float("inf"), float("-inf")):
            return (x < self.at) if self.sign in "<≤" else (x > self.at) if self.sign in ">≥" else self.sign == "≠"
        equal = cmath.isclose(x, self.at, rel_tol=1e-12)
        if self.sign in "<>":
            return not equal and (x < self.at) == (self.sign == "<")
        return (
            equal
            if self.sign == "="
            else not equal
            if self.sign == "≠"
            else equal or (x < self.at) == (self.sign == "≤")
        )


@dataclass(frozen=True, slots=True)
class _Region:
    name: str
    either: tuple[tuple[_Bound, ...], ...]

    def met(self, x: float) -> bool:
        return any(all(bound.met(x) for bound in together) for together in self.either)

    @property
    def ends(self) -> set[float]:
        return {bound.at for together in self.either for bound in together if abs(bound.at) != float("inf")}


def _same_region(left: _Region, right: _Region) -> bool:
    if left.name and right.name and left.name.casefold() != right.name.casefold():
        return False
    ends = sorted(left.ends | right.ends) or [0.0]
    between = [(a + b) / 2 for a, b in pairwise(ends) if not cmath.isclose(a, b, rel_tol=1e-12)]
    beyond = [ends[0] - 1 - abs(ends[0]), ends[-1] + 1 + abs(ends[-1])]
    return all(left.met(x) == right.met(x) for x in (*ends, *between, *beyond))


def _region(said: Said) -> _Region | None:
    names: set[str] = set()
    either: list[tuple[_Bound, ...]] = []
    try:
        for together in said.either:
            parts = [_part(statement, names) for statement in together]
            either.extend(_together(parts))
    except NoValueError:
        return None
    return _Region(names.pop() if names else "", tuple(either)) if either and len(names) <= 1 else None


_Part = list[tuple[_Bound, ...]]


def _together(parts: Sequence[_Part]) -> _Part:
    """Return all that hold at once; what a comma parts and cannot hold at once (`x < 1, x > 3`) is a choice."""
    if not parts:
        return []
    met: _Part = [()]
    for part in parts:
        met = [(*one, *other) for one in met for other in part][:64]
    region = _Region("", tuple(met))
    ends = sorted(region.ends)
    points = [*ends, *((a + b) / 2 for a, b in pairwise(ends))]
    points += [ends[0] - 1 - abs(ends[0]), ends[-1] + 1 + abs(ends[-1])] if ends else [0.0]
    return met if any(map(region.met, points)) else [one for part in parts for one in part]


def _part(statement: Statement, names: set[str]) -> _Part:
    sides, signs = statement.sides, statement.signs
    if not signs:
        return _written(sides[0], names)
    if signs == ("∈",):
        names.add(_unknown(sides[0]))
        return _written(sides[1], names)
    bounds: list[_Bound] = []
    for left, sign, right in zip(sides, signs, sides[1:], strict=False):
        for side, other, turned in ((left, right, sign), (right, left, _FLIPPED.get(sign, ""))):
            minus = side.startswith("-")
            if NAME.fullmatch(side.removeprefix("-").strip()) and turned:
                names.add(_unknown(side.removeprefix("-").strip()))
                at = _real(other)
                bounds.append(_Bound(_FLIPPED[turned], 0.0 - at) if minus else _Bound(turned.replace("≈", "="), at))
                break
        else:
            raise NoValueError
    return [tuple(bounds)]


def _unknown(text: str) -> str:
    if NAME.fullmatch(text) is None:
        raise NoValueError
    return text


def _real(text: str) -> float:
    infinite = _INFINITE.fullmatch(text.strip())
    if infinite is not None:
        return float(f"{infinite['sign']}inf")
    formula = read_formula(text)
    if formula is None or formula.brackets or len(set(formula.values)) != 1 or abs(formula.values[0].imag) > 0:
        raise NoValueError
    return formula.values[0].real


def _written(text: str, names: set[str]) -> _Part:
    """Return an interval, a set, the real numbers, or those without some, as a text writes it."""
    text = text.strip()
    built = _BUILT.fullmatch(text)
    if built is not None:
        region = _region(_said(built["rule"]))
        if region is None or region.name != built["name"]:
            raise NoValueError
        names.add(region.name)
        return list(region.either)
    unions = cut(text, _OR)
    if len(unions) > 1:
        return [one for part in unions for one in _written(part, names)]
    without = re.split(r"\\setminus|∖", text)
    if len(without) == 2:
        left_out = [_real(value) for value in _values(without[1].strip())]
        return [(*one, *(_Bound("≠", at) for at in left_out)) for one in _written(without[0], names)]
    if _REALS.fullmatch(text):
        return [(_Bound("<", float("inf")),)]
    if _is_braced(text):
        return [(_Bound("=", _real(value)),) for value in _values(text)]
    interval = _INTERVAL.fullmatch(text)
    ends = cut(interval["ends"], _COMMA) if interval else []
    if interval is None or len(ends) != 2:
        raise NoValueError
    low, high = map(_real, ends)
    if low > high:
        raise NoValueError
    return [
        (_Bound("≥" if interval["open"] == "[" else ">", low), _Bound("≤" if interval["close"] == "]" else "<", high))
    ]


# Any other relation: left minus right, for the settings of its letters, up to a factor.


def _same_relations(said: Said, target: Said, same: Same) -> bool:
    if len(said.either) != len(target.either):
        return False
    return _matched(_pairs(said), _pairs(target), lambda one, other: _same_relation(one, other, same))


_Pair = tuple[str, str, str]


def _matched(theirs: Iterable[_One], ours: Iterable[_One], same: Callable[[_One, _One], bool]) -> bool:
    """Tell whether each has its like among the others, and none is left over."""
    rest = list(ours)
    for one in theirs:
        match = next((place for place, other in enumerate(rest) if same(one, other)), None)
        if match is None:
            return False
        del rest[match]
    return not rest


def _pairs(said: Said) -> Iterator[_Pair]:
    """Yield each two neighbours of a chain, the smaller side first."""
    for statement in said.all:
        if not statement.signs:
            yield statement.sides[0], "", ""
        for left, sign, right in zip(statement.sides, statement.signs, statement.sides[1:], strict=False):
            turned = sign in ">≥"
            yield (right, _FLIPPED[sign], left) if turned else (left, "=" if sign == "≈" else sign, right)


def _same_relation(one: _Pair, other: _Pair, same: Same) -> bool:
    if one[1] != other[1]:
        return False
    if not one[1]:
        return same(one[0], other[0])
    ways = [(one[0], one[2]), (one[2], one[0])] if one[1] in "=≠" else [(one[0], one[2])]
    try:
        differences = _difference(one), _difference(other)
    except NoValueError:
        return any(_alike(left, other[0], same) and _alike(right, other[2], same) for left, right in ways)
    if not all((*differences[0], *differences[1])):
        return any(
            _as_written(left) == _as_written(other[0]) and _as_written(right) == _as_written(other[2])
            for left, right in ways
        )
    if one[1] == "=" and all(map(_UNKNOWN.search, ("".join(one), "".join(other)))):
        # The factor may hold the letters that are no unknowns: b^2 x^2 + a^2 y^2 = a^2 b^2 is the ellipse.
        differences = _difference(one, _COEFFICIENT), _difference(other, _COEFFICIENT)
    factors = [mine / theirs for mine, theirs in zip(*differences, strict=True)]
    constant = all(cmath.isclose(factor, factors[0], rel_tol=_ERROR) for factor in factors)
    letters = len(set(differences[0])) > 1 and len(set(differences[1])) > 1
    return constant and letters and (one[1] in "=≠" or (abs(factors[0].imag) < _ERROR and factors[0].real > 0))


def _alike(left: str, right: str, same: Same) -> bool:
    names = NAME.fullmatch(left) and NAME.fullmatch(right)
    return _one_spelling(left) == _one_spelling(right) if names else same(left, right)


def _as_written(side: str) -> str:
    return "".join(side.split())


_UNKNOWN = re.compile(r"(?<![\\A-Za-z])(?:[a-z]?[xyz]|[xyz][a-z])(?![A-Za-z])")
_COEFFICIENT: Final = r"(?!(?:[xyz])(?:_|$)).*"


def _difference(pair: _Pair, kept: str = "") -> tuple[complex, ...]:
    left, right = (values_of(_as_unknown(side), kept) for side in (pair[0], pair[2]))
    return tuple(_settled(a, b) for a, b in zip(left, right, strict=True))


def _settled(left: complex, right: complex) -> complex:
    return left - right if not cmath.isclose(left, right, rel_tol=1e-13) else 0j


def _as_unknown(side: str) -> str:
    """Write a function of a letter as the unknown `y` of its graph."""
    match = NAME.fullmatch(side)
    return "y" if match and match["argument"] and len(_head(match)) == 1 else side
