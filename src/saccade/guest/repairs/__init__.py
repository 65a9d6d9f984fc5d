"""Named repairs of a model's code: each a switch, each logged, none ever touching numbers or formats.

    fixed = repair_text(code, passes, log)      the text
    repair_tree(tree, passes, context, log)     the syntax tree
    with repairing(passes, log): ...            while the cell runs

`log(name, note)` is called for every repair that was made. Passes run in the order of `PASSES`, however they are named.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial

from . import clamp_crop, code_fence, cv_for_cv2, missing_import, path_alias, stray_indent
from .base import RepairContext, RepairPass

PASSES: dict[str, RepairPass] = {
    module.PASS.name: module.PASS
    for module in (code_fence, stray_indent, cv_for_cv2, missing_import, path_alias, clamp_crop)
}

NamedLog = Callable[[str, str], None]


def find_passes(names: Iterable[str]) -> tuple[RepairPass, ...]:
    """The passes of these names, in the order in which they run. Raises ValueError for an unknown name."""
    wanted = set(names)
    unknown = sorted(wanted - PASSES.keys())
    if unknown:
        raise ValueError(f"unknown repairs {', '.join(unknown)}; known are {', '.join(PASSES)}")
    return tuple(item for name, item in PASSES.items() if name in wanted)


def repair_text(code: str, passes: Iterable[RepairPass], log: NamedLog) -> str:
    """The text after the passes that work on it; it has as many lines as before."""
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
    """A context in which the passes that work at run time are active."""
    stack = ExitStack()
    for item in passes:
        if item.during is not None:
            stack.enter_context(item.during(partial(log, item.name)))
    return stack
