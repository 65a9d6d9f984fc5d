"""Which parts of the task's pictures a cell of model code cut out, read from its text without running it.

Follows what surely ran in a cell that ended well: statements one after the other, `with`, loops over known items.
Bodies of `if`, `while`, `try` and functions are not followed; what they assign is unknown afterwards. So a box that is
found was cut, but not every box is found.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, TypeAlias, TypeGuard

from saccade.record.task import parse

# Where code looked: values that follow a task's picture through crops and resizes.
#
# A `View` is a rectangle of a task's picture, possibly enlarged. Only whole rectangles are followed: what is turned,
# mirrored or pasted is no view any more, and what is not known stays unknown.

Xyxy: TypeAlias = tuple[float, float, float, float]


class Unknown:
    """A value that is unknown from the code alone."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


@dataclass(frozen=True, slots=True)
class View:
    """A picture of `width`×`height` pixels that shows `box` (`xyxy` pixels) of the task's picture `name`."""

    name: str
    box: Xyxy
    width: int
    height: int
    array: bool = False
    """Whether it is an array, whose first axis is y, and no Pillow image."""

    @classmethod
    def full(cls, name: str, width: int, height: int) -> View:
        return cls(name, (0, 0, width, height), width, height)

    def crop(self, box: Xyxy) -> View | None:
        """Return the part of the view inside `box` in pixels of the view, clipped to it; None if nothing is left."""
        left, right = (min(max(value, 0.0), float(self.width)) for value in (box[0], box[2]))
        top, bottom = (min(max(value, 0.0), float(self.height)) for value in (box[1], box[3]))
        if right - left < 1 or bottom - top < 1:
            return None
        x0, y0, x1, y1 = self.box
        step_x, step_y = (x1 - x0) / self.width, (y1 - y0) / self.height
        part = (x0 + left * step_x, y0 + top * step_y, x0 + right * step_x, y0 + bottom * step_y)
        return View(self.name, part, round(right - left), round(bottom - top), self.array)

    def resized(self, width: float, height: float) -> View | None:
        """Return the same part in another size; None if it has no pixels."""
        size = round(width), round(height)
        return View(self.name, self.box, *size, self.array) if min(size) >= 1 and max(size) <= 10**6 else None


@dataclass(frozen=True, slots=True)
class ImageFile:
    """The file of a task's picture, before it is opened."""

    view: View


DictKey: TypeAlias = int | float | str
Value: TypeAlias = "Unknown | View | ImageFile | int | float | str | tuple[Value, ...] | dict[DictKey, Value] | None"

BIGGEST: Final = 1e9
"""No number of a program that cuts pictures is larger."""


def is_number(value: Value) -> TypeGuard[int | float]:
    """Return whether it is a number to reckon with; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def numbers(value: Value, length: int) -> tuple[float, ...] | None:
    """Return `value` as that many numbers, or None."""
    if not isinstance(value, tuple) or len(value) != length:
        return None
    values = tuple(float(item) for item in value if is_number(item) and abs(item) < BIGGEST)
    return values if len(values) == length else None


def as_array(value: Value, array: bool) -> Value:
    """Return the same view as an array, or as a Pillow image."""
    return replace(value, array=array) if isinstance(value, View) else UNKNOWN


def resized(view: View, size: Value) -> Value:
    """Return the view in `size`, a tuple of width and height."""
    pair = numbers(size, 2)
    return UNKNOWN if pair is None else view.resized(pair[0], pair[1]) or UNKNOWN


# What operators, attributes and plain functions of model code give for known values, and `UNKNOWN` for all else.


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
    """Return `left operator right`, for numbers, and for tuples joined by `+`."""
    if isinstance(left, tuple) and isinstance(right, tuple) and isinstance(operator, ast.Add):
        return left + right if len(left) + len(right) <= MOST else UNKNOWN
    rule = _OPERATORS.get(type(operator))
    if rule is None or not (is_number(left) and is_number(right)):
        return UNKNOWN
    return _bounded(rule, left, right)


def negated(value: Value) -> Value:
    """Return what `-value` gives."""
    return -value if is_number(value) else UNKNOWN


def attribute(owner: Value, name: str) -> Value:
    """Return `owner.name`: the size of a view."""
    if not isinstance(owner, View):
        return UNKNOWN
    if owner.array:
        return (owner.height, owner.width, UNKNOWN) if name == "shape" else UNKNOWN
    known: dict[str, Value] = {"size": (owner.width, owner.height), "width": owner.width, "height": owner.height}
    return known.get(name, UNKNOWN)


def item(owner: Value, key: Value) -> Value:
    """Return `owner[key]` of a tuple or a dictionary."""
    if isinstance(owner, tuple) and isinstance(key, int) and -len(owner) <= key < len(owner):
        return owner[key]
    if isinstance(owner, dict) and isinstance(key, int | float | str):
        return owner.get(key, UNKNOWN)
    return UNKNOWN


def function(name: str, given: tuple[Value, ...]) -> Value:
    """Evaluate `name(*given)` of the functions that reckon with numbers or walk through tuples."""
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
    """Evaluate `cv2.resize` and `cv2.cvtColor` of a view."""
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


# Expressions of model code, as far as numbers, tuples and views of pictures go. Nothing is run.
#
# Any expression has a value, most of them `UNKNOWN`, and gets it within a bounded number of steps. Attributes and calls
# are those that programs which crop pictures use: Pillow, numpy slices, OpenCV's `imread` and `resize`.


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
        """Return the value of `node`; its parts are evaluated too, so that no crop in them is missed.

        Raises `TooLongError`: after very many steps, as in loops inside loops.
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
        """Count one more step. Raises `TooLongError` after very many."""
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
        """Return what a loop over `node` walks through; None if that is not known or is too much."""
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
        """Return `array[y0:y1, x0:x1]`, channels left as they are."""
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
    """Return `a.b.c` as it is written, or an empty text for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


LONGEST: Final = 50_000
"""Characters of a cell that is read."""


@dataclass
class Reader:
    """Reads the cells of one episode in their order; names live on from cell to cell."""

    names: dict[str, Value]
    files: Mapping[str, View] = field(default_factory=dict)

    def read(self, code: str) -> tuple[View, ...]:
        """Return the views that `code`, which ended well, cut out; each once, in order."""
        tree = parsed(code)
        if tree is None:
            self.names.clear()
            return ()
        walk = _Walk(Evaluator(dict(self.names), self.files))
        try:
            walk.body(tree.body)
        except (RecursionError, TooLongError):
            self.names.clear()
            return ()
        self.names = walk.evaluator.names
        return tuple(dict.fromkeys(walk.evaluator.cut))

    def distrust(self, code: str) -> None:
        """Forget whatever `code` may have assigned: it stopped half way and its state was kept."""
        tree = parsed(code)
        if tree is None:
            self.names.clear()
        else:
            forget(tree, self.names)


def parsed(code: str) -> ast.Module | None:
    """Return the syntax tree, or None if there is none to be had."""
    if len(code) > LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes in a model's strings are none of our concern
            return parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@dataclass
class _Walk:
    evaluator: Evaluator

    def body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        evaluator = self.evaluator
        match statement:
            case ast.Assign(targets=targets, value=value):
                result = evaluator.value(value)
                for target in targets:
                    evaluator.bind(target, result)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                evaluator.bind(target, evaluator.value(value))
            case ast.AugAssign(target=ast.Name(id=name) as target, op=operator, value=value):
                combined = ast.BinOp(left=ast.Name(id=name, ctx=ast.Load()), op=operator, right=value)
                evaluator.bind(target, evaluator.value(combined))
            case ast.Expr(value=value):
                evaluator.value(value)
            case ast.With(items=items, body=body):
                for item in items:
                    opened = evaluator.value(item.context_expr)
                    if item.optional_vars is not None:
                        evaluator.bind(item.optional_vars, opened)
                self.body(body)
            case ast.For(target=target, iter=source, body=body, orelse=[]):
                self._loop(target, source, body)
            case _:
                forget(statement, evaluator.names)

    def _loop(self, target: ast.expr, source: ast.expr, body: list[ast.stmt]) -> None:
        items = self.evaluator.items(source)
        leaves = any(isinstance(node, ast.Break | ast.Continue) for line in body for node in ast.walk(line))
        if items is None or leaves:
            for line in body:
                forget(line, self.evaluator.names)
            self.evaluator.bind(target, UNKNOWN)
            return
        for item in items:
            self.evaluator.count()
            self.evaluator.bind(target, item)
            self.body(body)


def forget(tree: ast.AST, names: dict[str, Value]) -> None:
    """Forget whatever `tree` may assign."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            names[node.id] = UNKNOWN
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names[node.name] = UNKNOWN
        elif isinstance(node, ast.alias) and (node.asname or node.name) in names:
            names[node.asname or node.name] = UNKNOWN
