"""Named repairs of a model's code: each a switch, each logged, none ever touching numbers or formats.

    fixed = repair_text(code, passes, log)      the text
    repair_tree(tree, passes, context, log)     the syntax tree
    with repairing(passes, log): ...            while the cell runs

`log(name, note)` is called for every repair that was made. Passes run in the order of `PASSES`, however they are named.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from PIL import Image

from . import lenient
from .preload import lookup
from .wire import PRELOAD

Log = Callable[[str], None]
"""Called with one sentence for every repair that was made."""


@dataclass(frozen=True, slots=True)
class RepairContext:
    """What a pass may look at: the session's variables (it may bind names there) and the path aliases."""

    namespace: MutableMapping[str, Any] = field(default_factory=dict)
    path_aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RepairPass:
    """A named repair. Each stage is optional: on the text, on the syntax tree, or while the cell runs."""

    name: str
    summary: str
    text: Callable[[str, Log], str] | None = None
    """The text for the next pass; must have as many lines."""
    tree: Callable[[ast.Module, RepairContext, Log], None] | None = None
    """Changes the tree in place."""
    during: Callable[[Log], AbstractContextManager[None]] | None = None


def compiles(code: str) -> bool:
    """Return whether `code` is a valid program; says nothing and warns of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(code, "<repair>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return False
    return True


_MOST_LOGGED = 20


@contextmanager
def clamping(log: Log) -> Iterator[None]:
    """Let `Image.crop` put swapped corners in order and clip the box to the image within the block."""
    original = Image.Image.crop
    repaired = 0

    def crop(self: Image.Image, box: Any = None) -> Image.Image:
        nonlocal repaired
        clipped = None if box is None else clip(box, *self.size)
        if clipped is None:
            return original(self, box)
        repaired += 1
        if repaired <= _MOST_LOGGED:
            asked = tuple(_plain(value) for value in box)
            log(f"crop box {asked} was clipped to {clipped} in an image of {self.width}x{self.height}")
        elif repaired == _MOST_LOGGED + 1:
            log("further crop boxes were clipped")
        return original(self, clipped)

    Image.Image.crop = crop  # type: ignore[method-assign]
    try:
        yield
    finally:
        if Image.Image.crop is crop:
            Image.Image.crop = original  # type: ignore[method-assign]


def clip(box: Any, width: int, height: int) -> tuple[float, float, float, float] | None:
    """Return the box in order and inside the image; None if it is fine or none. Raises ValueError if none is left."""
    try:
        x1, y1, x2, y2 = (_plain(value) for value in box)
    except (TypeError, ValueError, OverflowError):
        return None  # Pillow's own error says what is wrong
    left, right = sorted((x1, x2))
    upper, lower = sorted((y1, y2))
    clipped = (max(0, left), max(0, upper), min(width, right), min(height, lower))
    if round(clipped[0]) >= round(clipped[2]) or round(clipped[1]) >= round(clipped[3]):
        raise ValueError(
            f"crop box {(x1, y1, x2, y2)} (left, upper, right, lower) leaves nothing of the image, "
            f"which is {width} pixels wide and {height} pixels high"
        )
    return None if clipped == (x1, y1, x2, y2) else clipped


def _plain(value: Any) -> float:
    """Return the number as an int if it is whole; raises for what is no finite number."""
    number = float(value)
    return int(number) if number == math.floor(number) else number


_OPENING = re.compile(r"\s*(```+|~~~+)\s*[\w.+-]*\s*")
_CLOSING = re.compile(r"\s*(```+|~~~+)\s*")


def strip_fences(code: str, log: Log) -> str:
    """Empty the first and the last line if they are fences and the code does not compile as it is."""
    lines = code.split("\n")
    filled = [index for index, line in enumerate(lines) if line.strip()]
    if not filled or compiles(code):
        return code
    has_fence = False
    if _OPENING.fullmatch(lines[filled[0]]):
        lines[filled[0]] = ""
        has_fence = True
    if _CLOSING.fullmatch(lines[filled[-1]]):
        lines[filled[-1]] = ""
        has_fence = True
    if has_fence:
        log("Markdown fences around the code were removed")
    return "\n".join(lines)


def bound_names(tree: ast.AST) -> set[str]:
    """Return every name that the code binds anywhere, in whatever scope."""
    return {name for node in ast.walk(tree) for name in _binds(node)}


def attributes_of_names(tree: ast.AST) -> dict[str, set[str]]:
    """Return name -> the attributes that are read from it (`np.array` gives np -> array)."""
    attributes: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            attributes.setdefault(node.value.id, set()).add(node.attr)
    return attributes


def _binds(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).split(".")[0]
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    elif isinstance(node, ast.Global | ast.Nonlocal):
        yield from node.names


WRONG = frozenset({"cv", "cv3", "cv4"})


def use_cv2(tree: ast.Module, context: RepairContext, log: Log) -> None:
    """Turn imports of a wrong name into imports of cv2, and bind a wrong name that is used as a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_wrong(alias.name):
                    log(f"import {alias.name} was read as import cv2")
                    alias.asname = alias.asname or alias.name
                    alias.name = "cv2"
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module and _is_wrong(node.module):
            log(f"from {node.module} import was read as from cv2 import")
            node.module = "cv2"
    missing = attributes_of_names(tree).keys() & WRONG - context.namespace.keys()
    for name in sorted(missing - bound_names(tree) if missing else ()):
        try:
            context.namespace[name] = importlib.import_module("cv2")
        except ImportError:
            return
        log(f"{name} was used without being bound; cv2 was imported as {name}")


def _is_wrong(module: str) -> bool:
    """Return whether an import of this module can only have meant cv2."""
    if module not in WRONG or module in sys.modules:
        return False
    try:
        return importlib.util.find_spec(module) is None
    except (ImportError, ValueError):
        return True


def bind_missing(tree: ast.Module, context: RepairContext, log: Log) -> None:
    """Bind e.g. `np` if the cell says `np.array` and neither it nor the session has the name."""
    used = attributes_of_names(tree)
    missing = used.keys() & PRELOAD.keys() - context.namespace.keys()
    if not missing:
        return
    for name in sorted(missing - bound_names(tree)):
        if name in builtins.__dict__:
            continue
        try:
            module = lookup(name)
        except ImportError:
            continue
        # `string.upper()` means a forgotten variable, not the module: its own error is the better help.
        if any(hasattr(module, attribute) for attribute in used[name]):
            context.namespace[name] = module
            log(f"{name} was used without an import; {PRELOAD[name]} was imported as {name}")


def replace_paths(tree: ast.Module, context: RepairContext, log: Log) -> None:
    """Replace string constants that are an alias, or begin with an alias and a slash."""
    if context.path_aliases:
        _Replacer(context.path_aliases, log).visit(tree)


class _Replacer(ast.NodeTransformer):
    def __init__(self, aliases: Mapping[str, str], log: Log) -> None:
        # The longest alias first: one may be the beginning of another.
        self.aliases = sorted(((old.rstrip("/") or old, new) for old, new in aliases.items()), key=lambda a: -len(a[0]))
        self.log = log

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            node.value = self._replaced(node.value, alone=True)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        for index, part in enumerate(node.values):
            if isinstance(part, ast.FormattedValue):
                part.value = self.visit(part.value)  # never the format
            elif index == 0 and isinstance(part, ast.Constant) and isinstance(part.value, str):
                part.value = self._replaced(part.value, alone=len(node.values) == 1)
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Constant):
            return node  # a docstring, or a string that nobody uses
        return self.generic_visit(node)

    def _replaced(self, text: str, alone: bool) -> str:
        for old, new in self.aliases:
            if alone and text == old:
                self.log(f"the path {old} was read as {new}")
                return new
            if text.startswith(old + "/"):
                self.log(f"the path {old}/ was read as {new.rstrip('/')}/")
                return new.rstrip("/") + text[len(old) :]
        return text


_WHITE = re.compile(r"[ \t]*")


def remove_indent(code: str, log: Log) -> str:
    """Remove an indent that all lines have, all but the first, or only the first."""
    if compiles(code):
        return code
    lines = code.split("\n")
    filled = [index for index, line in enumerate(lines) if line.strip()]
    if not filled:
        return code
    first = filled[0]
    for candidate, note in (
        (_all(lines), "an indent of every line was removed"),
        (_only_first(lines, first), "a stray indent of the first line was removed"),
        (_all_but_first(lines, first), "an indent of every line but the first was removed"),
    ):
        if candidate is not None and compiles(candidate):
            log(note)
            return candidate
    return code


def _all(lines: list[str]) -> str | None:
    """Return the code without the indent of its first line, or None if it is no indented block."""
    code = "\n".join(lines)
    first = next(line for line in lines if line.strip())
    margin = _indent(first)
    inside = _lines_inside_strings(code)
    if not margin or inside is None:
        return None
    moved = []
    for number, line in enumerate(lines, 1):
        # A comment or a continued line may be indented less than the block.
        own = _indent(line)
        cut = 0 if number in inside else len(margin) if line.startswith(margin) else len(own)
        moved.append(line[cut:])
    return "\n".join(moved)


def _only_first(lines: list[str], first: int) -> str | None:
    return "\n".join([*lines[:first], lines[first].lstrip(), *lines[first + 1 :]])


def _all_but_first(lines: list[str], first: int) -> str | None:
    """Give the first line the least indent of the others, then remove it from all."""
    rest = [_indent(line) for line in lines[first + 1 :] if line.strip() and not line.lstrip().startswith("#")]
    margin = min(rest, key=len, default="")
    if _indent(lines[first]) or not margin:
        return None
    return _all([*lines[:first], margin + lines[first], *lines[first + 1 :]])


def _lines_inside_strings(code: str) -> set[int] | None:
    """Return numbers of the lines that start inside a string; None if the code is no indented block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse("if True:\n" + code)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None
    if len(tree.body) != 1:
        return None  # some lines lack the indent
    inside: set[int] = set()
    for node in ast.walk(tree):
        text = isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        )
        if text and isinstance(node, ast.expr) and node.end_lineno is not None:
            # The added first line shifts all numbers by one.
            inside.update(range(node.lineno, node.end_lineno))
    return inside


def _indent(line: str) -> str:
    match = _WHITE.match(line)
    return match.group() if match else ""


PASSES: dict[str, RepairPass] = {
    item.name: item
    for item in (
        RepairPass(
            "code_fence",
            "Removes Markdown fences around code that does not compile with them.",
            text=strip_fences,
        ),
        RepairPass(
            "stray_indent",
            "Removes a stray indent of the first or of all lines from code that does not compile with it.",
            text=remove_indent,
        ),
        RepairPass(
            "cv_for_cv2",
            "Takes cv, cv3 and cv4 for cv2 where no such name or module exists.",
            tree=use_cv2,
        ),
        RepairPass(
            "missing_import",
            "Imports a well-known module (np, plt, cv2, Image, math, os, ...) that the code uses without importing it.",
            tree=bind_missing,
        ),
        RepairPass(
            "path_alias",
            "Replaces paths that the model was told about by the paths that they stand for.",
            tree=replace_paths,
        ),
        RepairPass(
            "clamp_crop",
            "Clips crop boxes to the image and puts swapped corners in order while the program runs.",
            during=clamping,
        ),
        RepairPass(
            "clamp_slice",
            "Clips slices of arrays that are pictures, [y1:y2, x1:x2], to the picture and puts swapped ends in order.",
            tree=lambda tree, context, log: lenient.clamp_slices(tree, context.namespace, log),
            during=lenient.slicing,
        ),
        RepairPass(
            "near_path",
            "Reads other paths and names of the task's pictures as their own, and makes the folder of a new file.",
            during=lenient.finding,
        ),
        RepairPass(
            "read_only",
            "Refuses to write, remove or rename the files that were there from the start.",
            during=lenient.guarding,
        ),
    )
}

NamedLog = Callable[[str, str], None]


def find_passes(names: Iterable[str]) -> tuple[RepairPass, ...]:
    """Return the passes of these names, in the order in which they run. Raises ValueError for an unknown name."""
    wanted = set(names)
    unknown = sorted(wanted - PASSES.keys())
    if unknown:
        raise ValueError(f"unknown repairs {', '.join(unknown)}; known are {', '.join(PASSES)}")
    return tuple(item for name, item in PASSES.items() if name in wanted)


def repair_text(code: str, passes: Iterable[RepairPass], log: NamedLog) -> str:
    """Return the text after the passes that work on it; it has as many lines as before."""
    for item in passes:
        if item.text is not None:
            code = item.text(code, partial(log, item.name))
    return code


def repair_tree(tree: ast.Module, passes: Iterable[RepairPass], context: RepairContext, log: NamedLog) -> None:
    """Apply the passes that work on the syntax tree."""
    for item in passes:
        if item.tree is not None:
            item.tree(tree, context, partial(log, item.name))


def repairing(passes: Iterable[RepairPass], log: NamedLog) -> ExitStack:
    """Return a context in which the passes that work at run time are active."""
    stack = ExitStack()
    for item in passes:
        if item.during is not None:
            stack.enter_context(item.during(partial(log, item.name)))
    return stack
