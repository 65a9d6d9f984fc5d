"""Work counted in lines of Python that were run: the same on every machine, and no matter what else runs there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(call: Callable[[], object]) -> int:
    """How many lines of Python `call` runs, those of what it calls included; work inside C counts nothing."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def grows_linearly(call: Callable[[int], object], size: int) -> bool:
    """Whether four times the size is at most about four times the work of `call`; quadratic work is sixteen times."""
    small, large = lines_run(lambda: call(size)), lines_run(lambda: call(4 * size))
    return large <= 5 * small + 200
