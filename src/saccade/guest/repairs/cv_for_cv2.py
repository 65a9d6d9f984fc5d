"""Repair `cv_for_cv2`: OpenCV under a wrong name (`cv`, `cv3`, `cv4`)."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys

from .base import Log, RepairContext, RepairPass
from .names import attributes_of_names, bound_names

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
    """Whether an import of this module can only have meant cv2."""
    if module not in WRONG or module in sys.modules:
        return False
    try:
        return importlib.util.find_spec(module) is None
    except (ImportError, ValueError):
        return True


PASS = RepairPass(
    "cv_for_cv2",
    "Takes cv, cv3 and cv4 for cv2 where no such name or module exists.",
    tree=use_cv2,
)
