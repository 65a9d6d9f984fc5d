"""Habits of checkpoints that a paper's sandbox forgave, as repairs: slices beyond the picture, other paths of a file.

And what it forbade: the files that are in the workspace from the start are the task's pictures, which a program can
neither write, remove nor rename. None of this confines a program; the jail does that.
"""

from __future__ import annotations

import ast
import builtins
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any

Log = Callable[[str], None]

# Slices of arrays that are pictures.

_HELPER = "__slice_of_picture__"
_MOST_LOGGED = 20
_COLOURS = 4
_slice_log: list[Log] = []
"""That of the cell which runs: a function of an earlier cell reports to it too."""


def clamp_slices(tree: ast.Module, namespace: MutableMapping[str, Any], _log: Log) -> None:
    """Send `picture[y1:y2, x1:x2]`, where all four are given, through `slice_of_picture`."""
    slices = _Slices()
    slices.visit(tree)
    if slices.changed:
        namespace[_HELPER] = slice_of_picture
        ast.fix_missing_locations(tree)


class _Slices(ast.NodeTransformer):
    changed = False

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        index = node.slice
        if not isinstance(node.ctx, ast.Load) or not isinstance(index, ast.Tuple) or len(index.elts) < 2:
            return node
        if not all(_is_range(one) for one in index.elts[:2]) or any(isinstance(e, ast.Starred) for e in index.elts):
            return node
        self.changed = True
        slices = [_as_call(one) if isinstance(one, ast.Slice) else one for one in index.elts]
        name = ast.Name(_HELPER, ast.Load())
        call = ast.Call(name, [node.value, ast.Tuple(slices, ast.Load())], [])
        return ast.copy_location(call, node)


def _is_range(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice) and node.lower is not None and node.upper is not None and node.step is None


def _as_call(node: ast.Slice) -> ast.Call:
    bounds = [one if one is not None else ast.Constant(None) for one in (node.lower, node.upper, node.step)]
    # Not by the name `slice`, which the program may have bound.
    return ast.Call(ast.Attribute(ast.Name(_HELPER, ast.Load()), "slice", ast.Load()), bounds, [])


def slice_of_picture(value: Any, index: tuple[Any, ...]) -> Any:
    """Return `value[index]`, of a picture with both slices in order and inside. Raises ValueError if none is left."""
    if not _is_picture(value):
        return value[index]
    rows, columns = (_clamped(one, size) for one, size in zip(index[:2], value.shape[:2], strict=True))
    if (rows, columns) == index[:2]:
        return value[index]
    asked = [[one.start, one.stop] for one in index[:2]]
    height, width = value.shape[:2]
    if rows.start >= rows.stop or columns.start >= columns.stop:
        raise ValueError(
            f"the slice {asked} (rows, columns) leaves nothing of the image, which is {width} pixels wide and "
            f"{height} pixels high"
        )
    made = [[rows.start, rows.stop], [columns.start, columns.stop]]
    if _slice_log:
        _slice_log[-1](f"the slice {asked} was clipped to {made} in an image of {width}x{height}")
    return value[(rows, columns, *index[2:])]


slice_of_picture.slice = slice  # type: ignore[attr-defined]


def _is_picture(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray or value.dtype.kind not in "uifb":
        return False
    return bool(value.ndim == 2 or (value.ndim == 3 and value.shape[2] <= _COLOURS)) and min(value.shape[:2]) > 1


def _clamped(one: slice, size: int) -> slice:
    """Return the range in order and inside 0..size; itself if it is fine, counts from the end, or is no range."""
    start, stop = one.start, one.stop
    if not all(hasattr(bound, "__index__") for bound in (start, stop)) or stop < 0:
        return one
    start, stop = sorted((start, stop))
    if start >= 0 and start < size and (start, stop) == (one.start, one.stop):
        return one  # an end beyond the picture is numpy's own business
    return slice(max(0, start), min(size, stop))


@contextmanager
def slicing(log: Log) -> Iterator[None]:
    """Let `slice_of_picture` report to `log` within the block."""
    said: list[str] = []

    def some(note: str) -> None:
        said.append(note)
        if len(said) <= _MOST_LOGGED:
            log(note)
        elif len(said) == _MOST_LOGGED + 1:
            log("further slices were clipped")

    _slice_log.append(some)
    try:
        yield
    finally:
        _slice_log.pop()


# Files that were there from the start.

_given: list[str] = []
"""Their names, once a cell has run."""
_root: list[str] = []
"""The workspace, as the last cell found it."""
_guarding: list[bool] = []
"""Whether a cell with the guard runs; a hook cannot be taken back."""
_hooked: list[bool] = []
_PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
_GENERIC = re.compile(r"(?:(?:user|input|original|source|test)[ _-]*)?(?:image|img|picture|photo|pic)[ _-]*(\d{0,3})")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_APPEND


def _look_around() -> None:
    """Note where the workspace is, and before the first cell what is in it."""
    here = os.path.realpath(".")
    if not _root:
        _given[:] = sorted((name for name in os.listdir(here) if os.path.isfile(name)), key=_natural)
    if not _root or all(os.path.exists(os.path.join(here, name)) for name in _given):
        _root[:] = [here]


def _natural(name: str) -> tuple[int, str]:
    digits = re.search(r"\d+", name)
    return (int(digits[0]) if digits else 0, name)


@contextmanager
def guarding(_log: Log) -> Iterator[None]:
    """Refuse to write, remove or rename a given file within the block: PermissionError."""
    _look_around()
    if not _hooked:
        sys.addaudithook(_audit)
        _hooked.append(True)
    _guarding.append(True)
    try:
        with _cv2_with("imwrite", lambda write: _guarded(write)):
            yield
    finally:
        _guarding.pop()


def _guarded(write: Callable[..., Any]) -> Callable[..., Any]:
    def imwrite(filename: Any, *rest: Any, **more: Any) -> Any:
        _refuse(filename)
        return write(filename, *rest, **more)

    return imwrite


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _guarding:
        return
    if event == "open":
        path, _mode, flags = arguments
        if isinstance(flags, int) and flags & _WRITES:
            _refuse(path)
    elif event == "os.truncate":
        _refuse(arguments[0])
    elif event == "os.remove":
        _refuse(arguments[0], follow=False)
    elif event == "os.rename":
        _refuse(arguments[0], follow=False)
        _refuse(arguments[1], follow=False)


def _refuse(path: Any, *, follow: bool = True) -> None:
    """Raise PermissionError if `path` is one of the given files."""
    if isinstance(path, int):
        return
    name = _given_name(path, follow)
    if name:
        raise PermissionError(
            f"{name} is a picture of the task and is read-only: it can be neither written, removed nor renamed. Save "
            "under another name."
        )


def _given_name(path: Any, follow: bool) -> str:
    """Return the given file that `path` leads to; empty for none."""
    try:
        asked = os.stat(path, follow_symlinks=follow)
    except (OSError, ValueError, TypeError):
        return ""
    for name in _given:
        with suppress(OSError):
            if os.path.samestat(asked, os.stat(os.path.join(_root[0], name))):
                return name
    return ""


@contextmanager
def finding(log: Log) -> Iterator[None]:
    """Read other paths of a file as its own within the block, and make the folder of a new file."""
    _look_around()
    plain_open = builtins.open

    def opened(file: Any, mode: Any = "r", *rest: Any, **more: Any) -> Any:
        writes = isinstance(mode, str) and any(letter in mode for letter in "wax")
        return plain_open(_meant(file, writes, log), mode, *rest, **more)

    def reading(read: Callable[..., Any]) -> Callable[..., Any]:
        return lambda filename, *rest, **more: read(_meant(filename, False, log), *rest, **more)

    def writing(write: Callable[..., Any]) -> Callable[..., Any]:
        return lambda filename, *rest, **more: write(_meant(filename, True, log), *rest, **more)

    builtins.open = io.open = opened
    try:
        with _cv2_with("imread", reading), _cv2_with("imwrite", writing):
            yield
    finally:
        builtins.open = io.open = plain_open


def _meant(path: Any, writes: bool, log: Log) -> Any:
    """Return the path that is meant by `path`; itself where it is there, or nothing is known of it."""
    try:
        text = os.fspath(path)
    except TypeError:
        return path
    if not isinstance(text, str) or not text or os.path.lexists(text):
        return path
    folder, name = os.path.split(text)
    if writes:
        if not folder or os.path.isdir(folder):
            return path
        if os.path.isabs(folder):
            log(f"the path {text} was read as {name}: there is no folder {folder}")
            return os.path.join(_root[0], name)
        with suppress(OSError):
            os.makedirs(folder, exist_ok=True)
            log(f"the folder {folder} was made")
        return path
    found = name if os.path.isfile(os.path.join(_root[0], name)) else _other_name(name)
    if not found:
        return path
    log(f"the path {text} was read as {found}")
    return os.path.join(_root[0], found)


def _other_name(name: str) -> str:
    """Find the given picture of which `name` is another name: other letters or suffix, or `image_2.jpg`."""
    stem, suffix = os.path.splitext(name.lower())
    if suffix not in _PICTURES:
        return ""
    same = [one for one in _given if os.path.splitext(one.lower())[0] == stem]
    if len(same) == 1:
        return same[0]
    generic = _GENERIC.fullmatch(stem)
    if generic is None:
        return ""
    number = int(generic[1] or 1)
    if len(_given) == 1:
        return _given[0] if number <= 1 else ""
    return _given[number - 1] if generic[1] and 1 <= number <= len(_given) else ""


@contextmanager
def _cv2_with(name: str, change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Replace the function of OpenCV of that name by the changed one within the block, where OpenCV is loaded."""
    cv2 = sys.modules.get("cv2")
    plain = getattr(cv2, name, None)
    if cv2 is None or plain is None:
        yield
        return
    changed = change(plain)
    setattr(cv2, name, changed)
    try:
        yield
    finally:
        if getattr(cv2, name, None) is changed:
            setattr(cv2, name, plain)
