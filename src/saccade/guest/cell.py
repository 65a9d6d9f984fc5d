"""Run one cell and report all it gave back.

    run_cell ─ prepare (repairs, compile) ─ run ─ value ─ new files ─ what was left running ─ report

The report is made whatever the program does short of ending the process. What a cell may do is the jail's matter.
"""

from __future__ import annotations

import ast
import builtins
import faulthandler
import importlib
import inspect
import io
import linecache
import operator
import os
import re
import signal
import sys
import time
import warnings
from _thread import _count as count_threads
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from socket import socket
from time import monotonic, sleep
from traceback import StackSummary, TracebackException
from types import CodeType, ModuleType, TracebackType
from typing import Any, NoReturn, Self, cast

from PIL import Image

from .descriptors import OpenState, make_room, standing
from .fork import Forker
from .notebook import drawn, read_notebook, timed
from .outbox import Outbox
from .pixels import DRAWN
from .repairs import RepairContext, RepairPass, find_passes, repair_text, repair_tree, repairing
from .shown import ShownPictures, close
from .threads import settle
from .wire import GuestConfig
from .workspace import Entry, Workspace, WorkspaceTooLarge

_sources: dict[str, list[str]] = {}
"""File name of a cell -> its lines; kept apart from `linecache`, which a program may clear."""


@dataclass
class Program:
    """A cell, ready to run. `body` or `value` may be missing; `repairs` says what was changed, and may still grow."""

    filename: str
    body: CodeType | None = None
    value: CodeType | None = None
    passes: tuple[RepairPass, ...] = ()
    timed: bool = False
    """Whether it prints how long it took."""
    repairs: list[dict[str, str]] = field(default_factory=list)

    def log(self, name: str, note: str) -> None:
        """Record a repair, once."""
        entry = {"name": name, "note": note[:1000]}
        if entry not in self.repairs and len(self.repairs) < 200:
            self.repairs.append(entry)


def prepare(program: Program, code: str, namespace: MutableMapping[str, Any], config: GuestConfig) -> None:
    """Compile `code` into `program`. Raises what the compiler raises; repairs made until then are in the program."""
    remember(program.filename, code)
    if config.repairs:
        program.passes = find_passes(config.repairs)
        code = repair_text(code, program.passes, program.log)
        remember(program.filename, code)
    try:
        tree = ast.parse(code, program.filename)
    except SyntaxError as error:
        code, program.timed = read_notebook(code, error, program.log)
        tree = ast.parse(code, program.filename)
    if program.passes:
        context = RepairContext(namespace, config.path_aliases)
        repair_tree(tree, program.passes, context, program.log)
    last = tree.body[-1] if tree.body else None
    if config.last_expression and isinstance(last, ast.Expr) and not _is_silenced(code, last):
        tree.body.pop()
        program.value = _compiled(ast.Expression(last.value), program.filename)
    if tree.body:
        program.body = _compiled(tree, program.filename)


def _compiled(tree: ast.Expression | ast.Module, filename: str) -> CodeType:
    """Return the code; it makes a coroutine if the tree has an `await` outside of functions, as in a notebook."""
    mode = "eval" if isinstance(tree, ast.Expression) else "exec"
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code: CodeType = compile(tree, filename, mode, flags=flags, dont_inherit=True)
    return code


def remember(filename: str, code: str) -> None:
    """Keep the lines of a cell for tracebacks."""
    _sources[filename] = code.splitlines(keepends=True)
    _to_linecache(filename)
    if "class" in code:
        find_classes()


def is_cell(filename: str) -> bool:
    """Return whether a code object of that file name belongs to a cell."""
    return filename in _sources


@cache
def find_classes() -> None:
    """Let `inspect` find the source of a class of a cell, which it would look for in a file of `__main__`; once."""
    plain = inspect.getfile  # torch has put its own there where it was imported

    def getfile(object: Any) -> str:
        if isinstance(object, type) and object.__module__ == "__main__":
            head = re.compile(rf"\s*class\s+{re.escape(object.__name__)}\b")
            for filename, lines in reversed(_sources.items()):
                if any(map(head.match, lines)):
                    return filename
        return plain(object)

    inspect.getfile = getfile


def refresh_linecache() -> None:
    """Put back what a program may have cleared."""
    for filename in _sources:
        _to_linecache(filename)


def _to_linecache(filename: str) -> None:
    lines = _sources[filename]
    cache: object = linecache.cache
    if not isinstance(cache, dict):
        cache = linecache.cache = {}  # a program has put something else there
    # Without a time of change the entry is never checked against a file.
    cache[filename] = (sum(map(len, lines)), None, lines, filename)


def _is_silenced(code: str, last: ast.Expr) -> bool:
    """Return whether a semicolon follows the last expression, as in a notebook."""
    lines = code.splitlines()
    if last.end_lineno is None or last.end_col_offset is None or last.end_lineno > len(lines):
        return False
    rest = lines[last.end_lineno - 1].encode("utf-8", "replace")[last.end_col_offset :]
    return rest.lstrip().startswith(b";")


MOST_LISTED = 1000
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
_BEGINNINGS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"BM", b"GIF8", b"RIFF", b"II*\0", b"MM\0*")
_BOMB_FACTOR = 16
"""An image file with so many times the pixels of the largest picture is not decoded."""


def report_files(workspace: Workspace, shown: ShownPictures) -> list[dict[str, Any]]:
    """List path and size of every new or changed file; images, told by their contents, go to `shown`, oldest first."""
    changes = workspace.changes()
    entries = ((path, workspace.entry(path)) for path in (*changes.created, *changes.changed))
    files: list[tuple[str, Entry]] = [(path, entry) for path, entry in entries if entry.kind == "file"]
    for path, _entry in sorted(files, key=lambda item: (item[1].mtime, item[0])):
        _add_image(workspace, path, shown)
    if len(files) > MOST_LISTED:
        shown.note(f"{len(files)} files were written; the first {MOST_LISTED} are listed")
    return [{"path": printable(path), "size": entry.size} for path, entry in sorted(files)[:MOST_LISTED]]


def printable(path: str) -> str:
    """Return the path without the bytes that are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def _add_image(workspace: Workspace, path: str, shown: ShownPictures) -> None:
    """Show the file if it is an image; once the call has its number of pictures, it is only counted."""
    try:
        fd = workspace.open(path)
    except OSError:
        return
    with os.fdopen(fd, "rb") as file:
        if not file.read(16).startswith(_BEGINNINGS):
            return
        if shown.full:
            shown.drop()
            return
        file.seek(0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                image = Image.open(file, formats=_FORMATS)
                if image.width * image.height > _BOMB_FACTOR * shown.config.picture_pixels:
                    shown.note(f"{printable(path)} has {image.width}x{image.height} pixels, too many to be shown")
                    return
                image.load()
        except Exception:
            return  # broken, or a bomb: just a file
        shown.add(image, "file", printable(path))


GRACE = 0.2
"""Seconds that threads and processes get to end by themselves."""
_STEP = 0.005

_live_builtins = builtins.__dict__
_all, _map, _is = all, map, operator.is_
_timers = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_signals = tuple(int(number) for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
# The functions below `signal`, which do not turn every number into an enum member.
_plain_signal = importlib.import_module("_signal")
_getsignal, _setsignal, _setitimer = _plain_signal.getsignal, _plain_signal.signal, _plain_signal.setitimer
_settrace, _setprofile, _cancel_dump = sys.settrace, sys.setprofile, faulthandler.cancel_dump_traceback_later
_waitid, _waitpid, _getpid = os.waitid, os.waitpid, os.getpid


class ProcessState:
    """Restores timers, signal handlers, trace functions and builtins at the end of the block."""

    def __enter__(self) -> Self:
        self.pid = _getpid()
        self.threads = count_threads()
        self.had_children = _has_children()
        self.builtins = dict(_live_builtins)
        self.handlers = [(number, _getsignal(number)) for number in _signals]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        restore_builtins(self.builtins)
        _settrace(None)
        _setprofile(None)
        _cancel_dump()
        for timer in _timers:
            _setitimer(timer, 0)
        for number, handler in self.handlers:
            if handler is not None and _getsignal(number) is not handler:
                _setsignal(number, handler)

    def children_left(self) -> str | None:
        """Say which processes still run after a moment of grace and what to do about it, or None."""
        if self.had_children or not _has_children():
            return None
        _stop_resource_tracker()
        end = monotonic() + GRACE
        while _has_children():
            if monotonic() >= end:
                return (
                    "a process that the code had started was still running when the code ended. Processes cannot be "
                    "kept between calls: wait() for them (and use `with` for a Pool), then the call can be kept."
                )
            sleep(_STEP)
        return None


def restore_builtins(saved: dict[str, Any]) -> None:
    """Undo changes to builtins; names that were added stay."""
    # No builtin may be looked up before this is done.
    live = _live_builtins
    if _all(_map(_is, saved.values(), _map(live.get, saved))):
        return
    for name, value in saved.items():
        if live.get(name) is not value:
            live[name] = value


def _has_children() -> bool:
    """Return whether this process has a child that still runs; ended ones are collected."""
    try:
        while True:
            ended = _waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return True
            _waitpid(ended.si_pid, os.WNOHANG)
    except OSError:
        return False


def _stop_resource_tracker() -> None:
    """End the helper process of `multiprocessing`, which a program did not start on purpose."""
    module = sys.modules.get("multiprocessing.resource_tracker")
    stop = getattr(getattr(module, "_resource_tracker", None), "_stop", None)
    if stop is not None:
        with suppress(OSError):
            stop()


LONGEST = 8000
"""Characters of a traceback."""
_HEAD = 5200
_LONGEST_LINE = 2000
_OWN_FILES = ("<string>", "<stdin>")
_EXIT = (
    "SystemExit: exit() and sys.exit() are not for cells: they count as an error. "
    "Let the code run to its end, or raise an exception that says what is wrong."
)


def describe(error: BaseException, workspace: str, compiling: bool = False) -> str:
    """Return the traceback of `error`; frames outside of cells and of `workspace` are left out. Never raises."""
    try:
        refresh_linecache()
        trace = TracebackException(
            type(error), error, None if compiling else error.__traceback__, lookup_lines=False, compact=True
        )
        _keep_own_frames(trace, workspace)
        lines = list(trace.format())
        if isinstance(error, SystemExit):
            lines[-1] = _EXIT
        return shorten("".join(lines).rstrip("\n"))
    except BaseException:
        # A hostile exception class, or a program that broke the modules used above.
        return _plain(error)


def _plain(error: BaseException) -> str:
    """Return the place in the last cell and the kind of the exception, by the simplest means."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        if is_cell(trace.tb_frame.f_code.co_filename):
            place = f'File "{trace.tb_frame.f_code.co_filename}", line {trace.tb_lineno}\n'
        trace = trace.tb_next
    try:
        text = f"{error}"[:_LONGEST_LINE]
    except BaseException:
        text = "(the exception has no text)"
    return f"{place}{class_name(error)}: {text}"


def class_name(thing: object) -> str:
    """Return the name of the class of `thing`, even if its metaclass hides it."""
    name = type.__dict__["__name__"].__get__(type(thing))
    return name if isinstance(name, str) else "object"


def shorten(text: str) -> str:
    """Cut to at most `LONGEST` characters: long lines cut, then the middle left out."""
    if len(text) <= LONGEST:
        return text
    lines = [
        line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} ... [{len(line) - _LONGEST_LINE} more]"
        for line in text.split("\n")
    ]
    short = "\n".join(lines)
    if len(short) <= LONGEST:
        return short
    note = "\n... [the middle of this traceback was left out] ...\n"
    return short[:_HEAD] + note + short[len(short) - (LONGEST - _HEAD - len(note)) :]


def _keep_own_frames(trace: TracebackException, workspace: str) -> None:
    """Drop frames of libraries and of the sandbox, in the exception and in all that it was caused by."""
    todo: list[TracebackException | None] = [trace]
    done: set[int] = set()
    while todo:
        one = todo.pop()
        if one is None or id(one) in done:
            continue
        done.add(id(one))
        own = [
            frame
            for frame in one.stack
            if is_cell(frame.filename)
            or frame.filename in _OWN_FILES
            or frame.filename.startswith(workspace.rstrip("/") + "/")
        ]
        one.stack = StackSummary.from_list(own)
        todo += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]


LONGEST_VALUE = 16_000
"""Characters of the repr of a last expression."""
_MOST_NOTES = 100

# The program may replace these where they come from.
_exit, _evaluate = os._exit, eval
_perf_counter, _process_time, _AnyError = time.perf_counter, time.process_time, BaseException


Mapped = Sequence[Any]
"""A mapping of a file: start, end, rights ("rw-s"), offset in the file, and path in the workspace."""


@dataclass
class Interpreter:
    """State of a session's processes; copied to each by `fork`."""

    module: ModuleType
    config: GuestConfig
    sock: socket
    outbox: Outbox
    workspace: Workspace
    shown: ShownPictures
    forker: Forker
    standing: OpenState = field(default_factory=lambda: standing([]))
    """Open files when the last kept call ended."""
    maps: list[Mapped] = field(default_factory=list)
    """What was mapped then, and shared, of files of the workspace."""


@dataclass
class _Cell:
    """The call so far."""

    context: Interpreter
    program: Program
    status: str = "ok"
    value: str | None = None
    data: str | None = None
    traceback: str | None = None
    files: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    run: float = 0.0
    cpu: float = 0.0

    def failed(self, error: BaseException, compiling: bool = False) -> None:
        """Record the exception that ended the cell."""
        self.status = "out_of_memory" if not compiling and _is_out_of_memory(error) else "error"
        self.traceback = describe(error, self.context.config.workspace, compiling)

    def refuse(self, reason: str | None) -> None:
        """Record that the cell left something that cannot be kept; None if it did not."""
        if reason is not None:
            self.status = "refused"
            self.traceback = reason if self.traceback is None else f"{self.traceback}\n\nBesides, {reason}"

    def step(self, what: str, action: Callable[[], None]) -> None:
        """Do one part of the reporting; if it fails, the rest is reported all the same."""
        try:
            action()
        except BaseException as error:
            self.notes.append(f"{what} could not be reported: {class_name(error)}")


def run_cell(context: Interpreter, code: str, number: int) -> dict[str, Any]:
    """Run `code` as cell `number` in the context's module; never raises. Times of the report are in seconds.

    Keys: status, stdout and stderr ([bytes kept, bytes written]), value, data, traceback, pictures, files, repairs,
    notes, run, cpu, capture. The workspace is looked at, not committed.
    """
    outbox, shown = context.outbox, context.shown
    cell = _Cell(context, Program(f"<cell {number}>"))
    started = _perf_counter()
    outbox.reset()
    shown.begin()
    with ProcessState() as around:
        _dress(outbox)
        value = _execute(cell, code, around)
        if _getpid() != around.pid:
            _leave_child(cell)
    cell.step("the open files", lambda: cell.refuse(make_room()))
    cell.step("the threads", lambda: _settle_threads(cell, around.threads))
    cell.step("the processes", lambda: cell.refuse(around.children_left()))
    cell.step("the figures", lambda: _leave_figures(cell))
    cell.step("the files", lambda: _report_files(cell))
    if cell.status == "ok" and value is not None:
        cell.step("the value", lambda: setattr(cell, "data", outbox.as_data(value)))
    cell.step("the output", lambda: _finish_output(cell))
    return _report(cell, _perf_counter() - started)


def _dress(outbox: Outbox) -> None:
    """Give the process the standard streams, arguments and `input` that programs expect."""
    sys.stdout = sys.__stdout__ = cast(Any, outbox.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = cast(Any, outbox.stderr)  # type: ignore[misc]
    sys.stdin = sys.__stdin__ = io.StringIO()  # type: ignore[misc,assignment]
    sys.argv = ["cell"]
    builtins.input = _no_input


def _execute(cell: _Cell, code: str, around: ProcessState) -> object:
    """Compile and run, recording whatever happens; the value of the last expression."""
    namespace = cell.context.module.__dict__
    program = cell.program
    try:
        prepare(program, code, namespace, cell.context.config)
    except BaseException as error:
        cell.failed(error, compiling=True)
        return None
    cpu, start, value = _process_time(), _perf_counter(), None
    try:
        with repairing(program.passes, program.log) as stack:
            if program.timed:
                stack.enter_context(timed())
            value = _run(program, namespace)
    except _AnyError as error:
        restore_builtins(around.builtins)
        cell.failed(error)
    restore_builtins(around.builtins)
    cell.cpu = _process_time() - cpu
    cell.run = max(0.0, _perf_counter() - start - cell.context.shown.seconds)
    cell.step("the value", lambda: _take_value(cell, value))
    return value


def _run(program: Program, namespace: dict[str, Any]) -> object:
    """Return the value of the last expression; both parts in one event loop if one of them awaits."""
    value: Any = None
    codes = [code for code in (program.body, program.value) if code is not None]
    if any(code.co_flags & inspect.CO_COROUTINE for code in codes):
        import asyncio

        with asyncio.Runner() as runner:
            for code in codes:
                value = _evaluate(code, namespace)
                value = runner.run(value) if code.co_flags & inspect.CO_COROUTINE else value
    else:
        for code in codes:
            value = _evaluate(code, namespace)
    return None if program.value is None else value


def _take_value(cell: _Cell, value: object) -> None:
    """Report the value of the last expression: a picture as a picture, anything else by its repr."""
    if value is None:
        return
    picture = value if isinstance(value, DRAWN) else drawn(value)
    if picture is not None and cell.context.shown.add(picture, "value"):
        return
    try:
        text = repr(value)
    except MemoryError as error:
        cell.failed(error)
        return
    except BaseException as error:
        cell.notes.append(
            f"the value of the last expression ({class_name(value)}) was not reported: "
            f"its repr raised {class_name(error)}"
        )
        return
    if len(text) > LONGEST_VALUE:
        cell.notes.append(f"the value was cut: the first {LONGEST_VALUE} of {len(text)} characters are shown")
        text = text[:LONGEST_VALUE]
    cell.value = text


def _leave_figures(cell: _Cell) -> None:
    """Close what was shown, and say of what is open that it was not."""
    shown = cell.context.shown
    close(shown.finished_figures())
    if cell.status == "ok":
        shown.tell_of_open_figures()


def _settle_threads(cell: _Cell, before: int) -> None:
    note, why = settle(before, GRACE, is_cell)
    if note is not None:
        cell.notes.append(note)
    cell.refuse(why)


def _leave_child(cell: _Cell) -> NoReturn:
    """End a process that the cell forked and that came to the cell's end: only the original one reports."""
    if cell.traceback is not None:
        cell.context.outbox.stderr.write(cell.traceback + "\n")
    _exit(0 if cell.status == "ok" else 1)


def _report_files(cell: _Cell) -> None:
    try:
        cell.files = report_files(cell.context.workspace, cell.context.shown)
    except WorkspaceTooLarge as error:
        cell.refuse(str(error))


def _finish_output(cell: _Cell) -> None:
    with suppress(Exception):
        # A program may have wrapped stdout in a buffer of its own.
        sys.stdout.flush()
    outbox = cell.context.outbox
    outbox.take_tails()
    for name, stream in (("stdout", outbox.stdout), ("stderr", outbox.stderr)):
        if stream.total > stream.kept:
            cell.notes.append(f"{name} was cut: the first {stream.kept} of {stream.total} bytes were kept")


def _report(cell: _Cell, seconds: float) -> dict[str, Any]:
    outbox, shown = cell.context.outbox, cell.context.shown
    return {
        "status": cell.status,
        "stdout": [outbox.stdout.kept, outbox.stdout.total],
        "stderr": [outbox.stderr.kept, outbox.stderr.total],
        "value": cell.value,
        "data": cell.data,
        "traceback": cell.traceback,
        "pictures": shown.pictures,
        "files": cell.files,
        "repairs": cell.program.repairs,
        "notes": [*shown.notes(), *cell.notes][:_MOST_NOTES],
        "run": cell.run,
        "cpu": cell.cpu,
        "capture": max(0.0, seconds - cell.run),
    }


def _is_out_of_memory(error: BaseException) -> bool:
    """Return whether it is MemoryError, or OpenCV's own error for the same (code -4)."""
    return isinstance(error, MemoryError) or (class_name(error) == "error" and getattr(error, "code", None) == -4)


def _no_input(_prompt: object = "", /) -> NoReturn:
    raise EOFError("input() cannot be answered here: nobody is typing. Put the value into the code.")
