"""E1, E2, E3 and E5 in code. VISTA defines its classes for typed calls; for Python this is how they are carried over.

E1  the code is no Python
E2  a name that is not there: variable, attribute, module, keyword argument
E3  a value of the wrong type, range or shape; a crop beyond its picture; a file that is not there
E5  any other end: another exception, a time-out, a kill, nothing given back
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from saccade.dialects.outcome import failure
from saccade.evals.protocols.errors.calls import output_errors
from saccade.evals.protocols.errors.records import ErrorClass, StepError
from saccade.looks.reader import parsed
from saccade.record.execution import Execution
from saccade.record.status import Status
from saccade.record.suggest import did_you_mean
from saccade.record.turn import Turn

_CLASSES: Final[Mapping[str, tuple[ErrorClass, str]]] = {
    **dict.fromkeys(("SyntaxError", "IndentationError", "TabError"), (ErrorClass.E1, "code_syntax")),
    **dict.fromkeys(
        ("NameError", "UnboundLocalError", "AttributeError", "ImportError", "ModuleNotFoundError"),
        (ErrorClass.E2, "code_name"),
    ),
    **dict.fromkeys(
        (
            *("TypeError", "ValueError", "IndexError", "KeyError", "OverflowError", "AssertionError", "error"),
            *("FileNotFoundError", "IsADirectoryError", "UnidentifiedImageError", "DecompressionBombError"),
        ),
        (ErrorClass.E3, "code_value"),
    ),
}
"""By the class of the exception; `error` is OpenCV's."""
_KEYWORD: Final = re.compile(r"got an unexpected keyword argument '(?P<name>\w+)'")
_MISSING: Final = re.compile(r"name '(?P<name>\w+)' is not defined")
_CLAMP: Final = "clamp_crop"


def code_errors(number: int, turn: Turn, known: Iterable[str]) -> Iterator[StepError]:
    """The errors of one call of code; `known` are the names that code may have used by then."""
    run = turn.execution
    if run is None or run.status is Status.LOST:
        return
    clamps = [repair.note for repair in run.repairs if repair.name == _CLAMP]
    if clamps:
        detail = clamps[0] or "A crop reached beyond its picture."
        yield StepError(error=ErrorClass.E3, turn=number, rule="out_of_picture", detail=detail)
    if run.status is Status.ERROR:
        yield _raised(number, run, known)
    else:
        yield from output_errors(number, turn)


def names_in(code: str) -> frozenset[str]:
    """Names that the code assigns, defines or imports; none if it is no Python."""
    tree = parsed(code)
    if tree is None:
        return frozenset()
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names |= {node.name for node in ast.walk(tree) if isinstance(node, defined)}
    names |= {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return frozenset(names)


def _raised(number: int, run: Execution, known: Iterable[str]) -> StepError:
    ended = failure(run)
    error, rule = _CLASSES.get(ended.kind, (ErrorClass.E5, "code_exception"))
    detail = f"{ended.kind}: {ended.message}"
    if ended.kind == "TypeError" and _KEYWORD.search(ended.message):
        error, rule = ErrorClass.E2, "keyword_argument"
    missing = _MISSING.search(ended.message) if ended.kind == "NameError" else None
    if missing is not None:
        hint = did_you_mean(missing["name"], known)
        detail = f"{detail}. {hint}".rstrip(" .") if hint else detail
    return StepError(error=error, turn=number, rule=rule, detail=detail[:500])
