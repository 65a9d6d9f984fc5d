"""Run one cell and report all it gave back.

    run_cell ─ prepare (repairs, compile) ─ run ─ value ─ new files ─ what was left running ─ report

The report is made whatever the program does short of ending the process; the host takes a missing report for a killed
call. A cell runs with the process's own rights: what it may do is the jail's matter.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NoReturn, Protocol, cast

from . import show_figures
from .config import GuestConfig
from .descriptors import make_room
from .files import report_files
from .leftovers import ProcessState, restore_builtins
from .outbox import Outbox
from .pixels import DRAWN
from .program import Program, prepare
from .repairs import repairing
from .shown import ShownPictures
from .trace import class_name, describe
from .workspace import Workspace, WorkspaceTooLarge

LONGEST_VALUE = 16_000
"""Characters of the repr of a last expression."""
_MOST_NOTES = 100
_NO_INPUT = "input() cannot be answered here: nobody is typing. Put the value into the code."

# The program may replace these where they come from.
_exit, _getpid, _run, _evaluate = os._exit, os.getpid, exec, eval
_perf_counter, _process_time, _AnyError = time.perf_counter, time.process_time, BaseException


class CellContext(Protocol):
    """What a cell runs in and reports to; the guest's `Interpreter` is one."""

    module: ModuleType
    config: GuestConfig
    outbox: Outbox
    workspace: Workspace
    shown: ShownPictures


@dataclass
class _Cell:
    """What is known of the call so far."""

    module: ModuleType
    config: GuestConfig
    outbox: Outbox
    workspace: Workspace
    shown: ShownPictures
    program: Program
    status: str = "ok"
    value: str | None = None
    traceback: str | None = None
    files: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    run: float = 0.0
    cpu: float = 0.0

    def failed(self, error: BaseException, compiling: bool = False) -> None:
        """Take down the exception that ended the cell."""
        self.status = "out_of_memory" if not compiling and _is_out_of_memory(error) else "error"
        self.traceback = describe(error, self.config.workspace, compiling)

    def refuse(self, reason: str | None) -> None:
        """Take down that the cell left something that cannot be kept; None if it did not."""
        if reason is not None:
            self.status = "refused"
            self.traceback = reason if self.traceback is None else f"{self.traceback}\n\nBesides, {reason}"

    def step(self, what: str, action: Callable[[], None]) -> None:
        """Do one part of the reporting; if it fails, the rest is reported all the same."""
        try:
            action()
        except BaseException as error:
            self.notes.append(f"{what} could not be reported: {class_name(error)}")


def run_cell(context: CellContext, code: str, number: int) -> dict[str, Any]:
    """Run `code` as cell `number` in the context's module; never raises. Times of the report are in seconds.

    Keys: status, stdout and stderr ([bytes kept, bytes written]), value, traceback, pictures, files, repairs, notes,
    run, cpu, capture. The workspace is looked at, not committed.
    """
    outbox, shown = context.outbox, context.shown
    cell = _Cell(context.module, context.config, outbox, context.workspace, shown, Program(f"<cell {number}>"))
    started = _perf_counter()
    outbox.reset()
    shown.begin()
    with ProcessState() as around:
        _dress(outbox)
        _execute(cell, code, around)
        if _getpid() != around.pid:
            _leave_child(cell)
    cell.step("the open files", lambda: cell.refuse(make_room()))
    cell.step("what was left running", lambda: cell.refuse(around.left_running()))
    cell.step("the figures", lambda: show_figures.close(shown.finished_figures()))
    cell.step("the files", lambda: _report_files(cell))
    cell.step("the output", lambda: _finish_output(cell))
    return _report(cell, _perf_counter() - started)


def _dress(outbox: Outbox) -> None:
    """Give the process the standard streams, arguments and `input` that programs expect."""
    sys.stdout = sys.__stdout__ = cast(Any, outbox.stdout)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = cast(Any, outbox.stderr)  # type: ignore[misc]
    sys.stdin = sys.__stdin__ = io.StringIO()  # type: ignore[misc,assignment]
    sys.argv = ["cell"]
    builtins.input = _no_input


def _execute(cell: _Cell, code: str, around: ProcessState) -> None:
    """Compile and run, taking down whatever happens."""
    namespace = cell.module.__dict__
    program = cell.program
    try:
        prepare(program, code, namespace, cell.config)
    except BaseException as error:
        cell.failed(error, compiling=True)
        return
    cpu, start, value = _process_time(), _perf_counter(), None
    try:
        with repairing(program.passes, program.log):
            if program.body is not None:
                _run(program.body, namespace)
            if program.value is not None:
                value = _evaluate(program.value, namespace)
    except _AnyError as error:
        restore_builtins(around.builtins)
        cell.failed(error)
    restore_builtins(around.builtins)
    cell.cpu = _process_time() - cpu
    cell.run = max(0.0, _perf_counter() - start - cell.shown.seconds)
    cell.step("the value", lambda: _take_value(cell, value))


def _take_value(cell: _Cell, value: object) -> None:
    """Report the value of the last expression: a picture as a picture, anything else by its repr."""
    if value is None:
        return
    if isinstance(value, DRAWN) and cell.shown.add(value, "value"):
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


def _leave_child(cell: _Cell) -> NoReturn:
    """End a process that the cell forked and that came to the cell's end: only the original one reports."""
    if cell.traceback is not None:
        cell.outbox.stderr.write(cell.traceback + "\n")
    _exit(0 if cell.status == "ok" else 1)


def _report_files(cell: _Cell) -> None:
    try:
        cell.files = report_files(cell.workspace, cell.shown)
    except WorkspaceTooLarge as error:
        cell.refuse(str(error))


def _finish_output(cell: _Cell) -> None:
    with suppress(Exception):
        # A program may have wrapped stdout in a buffer of its own.
        sys.stdout.flush()
    cell.outbox.take_tails()
    for name, stream in (("stdout", cell.outbox.stdout), ("stderr", cell.outbox.stderr)):
        if stream.total > stream.kept:
            cell.notes.append(f"{name} was cut: the first {stream.kept} of {stream.total} bytes were kept")


def _report(cell: _Cell, seconds: float) -> dict[str, Any]:
    outbox, shown = cell.outbox, cell.shown
    return {
        "status": cell.status,
        "stdout": [outbox.stdout.kept, outbox.stdout.total],
        "stderr": [outbox.stderr.kept, outbox.stderr.total],
        "value": cell.value,
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
    """MemoryError, or OpenCV's own error for the same (code -4)."""
    return isinstance(error, MemoryError) or (class_name(error) == "error" and getattr(error, "code", None) == -4)


def _no_input(_prompt: object = "", /) -> NoReturn:
    raise EOFError(_NO_INPUT)
