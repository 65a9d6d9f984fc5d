"""Short tracebacks: the program's own frames and the exception, whatever the exception does when it is looked at."""

from __future__ import annotations

from traceback import StackSummary, TracebackException

from .program import is_cell, refresh_linecache

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
    """The traceback of `error`; frames outside of cells and of `workspace` are left out. Never raises."""
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
    """The place in the last cell and the kind of the exception, by the simplest means."""
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
    """Name of the class of `thing`, even if its metaclass hides it."""
    name = type.__dict__["__name__"].__get__(type(thing))
    return name if isinstance(name, str) else "object"


def shorten(text: str) -> str:
    """At most `LONGEST` characters: long lines cut, then the middle left out."""
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
