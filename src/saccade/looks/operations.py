"""What operators, attributes and plain functions of model code give for known values, and `UNKNOWN` for all else."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from saccade.looks.views import BIGGEST, UNKNOWN, Value, View, is_number, numbers

MOST: Final = 64
"""Items of a loop that are followed."""

_OPERATORS: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: lambda left, right: left % right,
    ast.Pow: math.pow,  # of floats, so that no power grows large
}
_NUMBERS: Final[Mapping[str, Callable[..., float]]] = {
    "int": int,
    "float": float,
    "round": round,
    "abs": abs,
    "min": min,
    "max": max,
    "math.floor": math.floor,
    "math.ceil": math.ceil,
}


def computed(operator: ast.operator, left: Value, right: Value) -> Value:
    """`left operator right`, for numbers, and for tuples joined by `+`."""
    if isinstance(left, tuple) and isinstance(right, tuple) and isinstance(operator, ast.Add):
        return left + right if len(left) + len(right) <= MOST else UNKNOWN
    rule = _OPERATORS.get(type(operator))
    if rule is None or not (is_number(left) and is_number(right)):
        return UNKNOWN
    return _bounded(rule, left, right)


def negated(value: Value) -> Value:
    """What `-value` gives."""
    return -value if is_number(value) else UNKNOWN


def attribute(owner: Value, name: str) -> Value:
    """`owner.name`: the size of a view."""
    if not isinstance(owner, View):
        return UNKNOWN
    if owner.array:
        return (owner.height, owner.width, UNKNOWN) if name == "shape" else UNKNOWN
    known: dict[str, Value] = {"size": (owner.width, owner.height), "width": owner.width, "height": owner.height}
    return known.get(name, UNKNOWN)


def item(owner: Value, key: Value) -> Value:
    """`owner[key]` of a tuple or a dictionary."""
    if isinstance(owner, tuple) and isinstance(key, int) and -len(owner) <= key < len(owner):
        return owner[key]
    if isinstance(owner, dict) and isinstance(key, int | float | str):
        return owner.get(key, UNKNOWN)
    return UNKNOWN


def function(name: str, given: tuple[Value, ...]) -> Value:
    """`name(*given)` of the functions that reckon with numbers or walk through tuples."""
    if name in _NUMBERS:
        values = given[0] if len(given) == 1 and isinstance(given[0], tuple) else given
        known = numbers(values, len(values))
        # Integers stay integers: they are edges of slices.
        return UNKNOWN if known is None else _bounded(_NUMBERS[name], *(v for v in values if is_number(v)))
    rows = [value for value in given if isinstance(value, tuple)]
    if name in ("tuple", "list") and len(rows) == len(given) == 1:
        return rows[0]
    if name == "len" and len(rows) == len(given) == 1:
        return len(rows[0])
    if name == "enumerate" and len(rows) == len(given) == 1:
        return tuple(enumerate(rows[0]))
    if name == "zip" and rows and len(rows) == len(given):
        return tuple(zip(*rows, strict=False))
    if name == "range" and all(isinstance(value, int) for value in given) and 1 <= len(given) <= 3:
        return _range(*(value for value in given if isinstance(value, int)))
    return UNKNOWN


def opencv(name: str, given: tuple[Value, ...], named: Mapping[str, Value]) -> Value:
    """`cv2.resize` and `cv2.cvtColor` of a view."""
    view = given[0] if given else UNKNOWN
    if not isinstance(view, View):
        return UNKNOWN
    if name == "cv2.cvtColor":
        return view
    size = numbers(given[1] if len(given) > 1 else named.get("dsize", UNKNOWN), 2)
    if size is not None:
        return view.resized(size[0], size[1]) or UNKNOWN
    scale = numbers((named.get("fx", UNKNOWN), named.get("fy", UNKNOWN)), 2)
    return UNKNOWN if scale is None else view.resized(view.width * scale[0], view.height * scale[1]) or UNKNOWN


def _bounded(rule: Callable[..., float], *values: float) -> Value:
    try:
        result = rule(*values)
    except (ArithmeticError, ValueError, TypeError):
        return UNKNOWN
    return result if is_number(result) and abs(result) < BIGGEST else UNKNOWN


def _range(*edges: int) -> Value:
    try:
        return tuple(islice(range(*edges), MOST + 1))
    except ValueError:  # a step of zero
        return UNKNOWN
