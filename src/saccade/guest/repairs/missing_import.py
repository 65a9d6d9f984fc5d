"""Repair `missing_import`: bind a well-known module that the cell uses and nobody has bound."""

from __future__ import annotations

import ast

from ..preload import PRELOAD, lookup
from .base import Log, RepairContext, RepairPass
from .names import attributes_of_names, bound_names, is_builtin


def bind_missing(tree: ast.Module, context: RepairContext, log: Log) -> None:
    """Bind e.g. `np` if the cell says `np.array` and neither it nor the session has the name."""
    used = attributes_of_names(tree)
    missing = used.keys() & PRELOAD.keys() - context.namespace.keys()
    if not missing:
        return
    for name in sorted(missing - bound_names(tree)):
        if is_builtin(name):
            continue
        try:
            module = lookup(name)
        except ImportError:
            continue
        # `string.upper()` means a forgotten variable, not the module: its own error is the better help.
        if any(hasattr(module, attribute) for attribute in used[name]):
            context.namespace[name] = module
            log(f"{name} was used without an import; {PRELOAD[name]} was imported as {name}")


PASS = RepairPass(
    "missing_import",
    "Imports a well-known module (np, plt, cv2, Image, math, os, ...) that the code uses without importing it.",
    tree=bind_missing,
)
