"""Expressions of model code, as far as numbers, tuples and views of pictures go. Nothing is run.

Any expression has a value, most of them `UNKNOWN`, and gets it within a bounded number of steps. Attributes and calls
are those that programs which crop pictures use: Pillow, numpy slices, OpenCV's `imread` and `resize`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeGuard

from saccade.looks.operations import MOST, attribute, computed, function, item, negated, opencv
from saccade.looks.views import UNKNOWN, DictKey, ImageFile, Value, View, Xyxy, as_array, numbers, resized

_OPENERS: Final = frozenset({"Image.open", "PIL.Image.open"})
_READERS: Final = frozenset({"cv2.imread", "plt.imread", "imageio.imread"})
_TO_ARRAY: Final = frozenset({"np.array", "np.asarray", "numpy.array", "numpy.asarray"})
_TO_IMAGE: Final = frozenset({"Image.fromarray", "PIL.Image.fromarray"})
_SAME: Final = frozenset({"convert", "copy", "astype"})
"""Methods that leave size and place as they are."""
_MOST_STEPS: Final = 50_000


class TooLongError(Exception):
    """The code would take too long to follow. Never leaves this package."""


@dataclass
class Evaluator:
    """Names and their values, and the views that were cut out while expressions were evaluated."""

    names: dict[str, Value]
    files: Mapping[str, View]
    """Path, as the program may write it -> the picture in it."""
    cut: list[View] = field(default_factory=list)
    steps: int = 0

    def value(self, node: ast.expr | None) -> Value:
        """The value of `node`; its parts are evaluated too, so that no crop in them is missed.

        Raises:
            TooLongError: after very many steps, as in loops inside loops.
        """
        self.count()
        match node:
            case None:
                return None
            case ast.Constant(value=bool()):
                return UNKNOWN
            case ast.Constant(value=int() | float() | str() | None as constant):
                return constant
            case ast.Name(id=name):
                return self.names.get(name, UNKNOWN)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return self._tuple(items)
            case ast.Dict(keys=keys, values=values):
                return self._dict(keys, values)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return negated(self.value(operand))
            case ast.BinOp(left=left, op=operator, right=right):
                return computed(operator, self.value(left), self.value(right))
            case ast.Attribute(value=owner, attr=name):
                return attribute(self.value(owner), name)
            case ast.Subscript(value=owner, slice=index):
                return self._subscript(self.value(owner), index)
            case ast.Call():
                return self._call(node)
            case ast.ListComp(elt=element, generators=[ast.comprehension(ifs=[]) as loop]):
                return self._comprehension(element, loop)
        return UNKNOWN

    def count(self) -> None:
        """One more step. Raises `TooLongError` after very many."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise TooLongError

    def bind(self, target: ast.expr, value: Value) -> None:
        """Assign `value` to a name or to a tuple of names; other targets hold nothing that is followed."""
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            known = isinstance(value, tuple) and len(value) == len(target.elts)
            values = value if known and isinstance(value, tuple) else (UNKNOWN,) * len(target.elts)
            for part, inner in zip(target.elts, values, strict=True):
                self.bind(part.value if isinstance(part, ast.Starred) else part, inner if known else UNKNOWN)

    def items(self, node: ast.expr) -> tuple[Value, ...] | None:
        """What a loop over `node` walks through; None if that is not known or is too much."""
        value = self.value(node)
        return value if isinstance(value, tuple) and len(value) <= MOST else None

    def _tuple(self, items: list[ast.expr]) -> Value:
        values = tuple(self.value(entry.value if isinstance(entry, ast.Starred) else entry) for entry in items)
        return UNKNOWN if any(isinstance(entry, ast.Starred) for entry in items) else values

    def _dict(self, keys: list[ast.expr | None], values: list[ast.expr]) -> Value:
        entries: dict[DictKey, Value] = {}
        for key, value in zip(keys, values, strict=True):
            name = self.value(key)
            if not isinstance(name, int | float | str):
                return UNKNOWN
            entries[name] = self.value(value)
        return entries

    def _comprehension(self, element: ast.expr, loop: ast.comprehension) -> Value:
        items = self.items(loop.iter)
        if items is None:
            return UNKNOWN
        outside = dict(self.names)
        values = []
        for entry in items:
            self.bind(loop.target, entry)
            values.append(self.value(element))
        self.names = outside
        return tuple(values)

    def _subscript(self, owner: Value, index: ast.expr) -> Value:
        if isinstance(owner, View):
            return self._sliced(owner, index) if owner.array else UNKNOWN
        if not isinstance(index, ast.Slice):
            return item(owner, self.value(index))
        edges = self.value(index.lower), self.value(index.upper)
        if isinstance(owner, tuple) and index.step is None and _are_edges(edges):
            return owner[slice(*edges)]
        return UNKNOWN

    def _sliced(self, view: View, index: ast.expr) -> Value:
        """`array[y0:y1, x0:x1]`, channels left as they are."""
        axes = index.elts if isinstance(index, ast.Tuple) else [index]
        spans = [(0, view.height), (0, view.width)]
        for number, axis in enumerate(axes[:2]):
            if not isinstance(axis, ast.Slice) or axis.step is not None:
                return UNKNOWN
            edges = self.value(axis.lower), self.value(axis.upper)
            if not _are_edges(edges):
                return UNKNOWN
            spans[number] = slice(*edges).indices(spans[number][1])[:2]
        (top, bottom), (left, right) = spans
        full = (left, top, right, bottom) == (0, 0, view.width, view.height)
        return view if full else self._cut(view, (left, top, right, bottom))

    def _cut(self, view: View, box: Xyxy) -> Value:
        part = view.crop(box)
        if part is None:
            return UNKNOWN
        self.cut.append(part)
        return part

    def _call(self, node: ast.Call) -> Value:
        arguments = self._tuple(node.args)
        given = arguments if isinstance(arguments, tuple) else ()
        named = {word.arg: self.value(word.value) for word in node.keywords if word.arg}
        name = _dotted(node.func)
        first = given[0] if given else UNKNOWN
        if name in _OPENERS or name in _READERS:
            view = self.files.get(first) if isinstance(first, str) else None
            view = first.view if isinstance(first, ImageFile) else view
            return UNKNOWN if view is None else as_array(view, name in _READERS)
        if name in _TO_ARRAY or name in _TO_IMAGE:
            return as_array(first, name in _TO_ARRAY)
        if name in ("cv2.resize", "cv2.cvtColor"):
            return opencv(name, given, named)
        if isinstance(node.func, ast.Attribute) and not name.startswith("math."):
            return self._method(node.func, given, named)
        return function(name, given)

    def _method(self, node: ast.Attribute, given: tuple[Value, ...], named: Mapping[str, Value]) -> Value:
        owner, name = self.value(node.value), node.attr
        if isinstance(owner, dict) and name in ("items", "values"):
            return tuple(owner.values()) if name == "values" else tuple(owner.items())
        if not isinstance(owner, View):
            return UNKNOWN
        if name == "thumbnail" and isinstance(node.value, ast.Name):
            self.names[node.value.id] = UNKNOWN  # it shrinks the image itself
        if name in _SAME:
            return owner
        argument = given[0] if given else named.get("box" if name == "crop" else "size", UNKNOWN)
        if name == "crop" and not owner.array:
            box = numbers(argument, 4)
            return UNKNOWN if box is None else self._cut(owner, (box[0], box[1], box[2], box[3]))
        if name == "resize" and not owner.array and len(given) < 3 and "box" not in named:
            return resized(owner, argument)
        return UNKNOWN


def _are_edges(values: tuple[Value, Value]) -> TypeGuard[tuple[int | None, int | None]]:
    return all(value is None or isinstance(value, int) for value in values)


def _dotted(node: ast.expr) -> str:
    """`a.b.c` as it is written, or an empty text for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""
