"""What the tool-use protocol finds: PyVision's taxonomy, calls per sample against accuracy (CodeV, figure 8).

A call may do several things; one of them is its label. Shares are over calls that ended well; calls that failed are
counted apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal

from pydantic import FiniteFloat, NonNegativeInt

from saccade.evals.protocols.findings import Findings, Mean, Rate, SampleRow
from saccade.record.base import Name, Record, Text
from saccade.record.execution import Status
from saccade.tools.context import Operation


class CallUse(Record):
    """One call and what it did."""

    turn: NonNegativeInt
    """From 0."""
    tool: Text = ""
    """Name of the typed tool, or of the provider's; empty for code that ran in our sandbox."""
    status: Status
    operations: tuple[Operation, ...]
    """In the order of `Operation`; never empty."""
    label: Operation | None = None
    """The one that stands for the call: see `label_of`; None in findings that were made before there was one."""
    pictures: NonNegativeInt
    """That came back."""


_PRECEDENCE: Final = (
    Operation.FRAME_FETCH,
    Operation.OCR,
    Operation.SEGMENT,
    Operation.DETECT_EDGES,
    Operation.COMPARE,
    Operation.CROP,
    Operation.ZOOM,
    Operation.ROTATE,
    Operation.ENHANCE,
    Operation.HISTOGRAM,
    Operation.DRAW,
    Operation.SKETCH,
    Operation.NUMERICAL_ANALYSIS,
)


def label_of(operations: Collection[Operation]) -> Operation:
    """Return the one label of a call, as the shares of PyVision-RL's figures 21, 23 and 25 need it.

    The paper does not say which of several counts. Here the most telling: what finds something comes before how the
    picture was prepared, and both before what was drawn or computed from it.
    """
    return min(operations, key=lambda one: _PRECEDENCE.index(one) if one in _PRECEDENCE else len(_PRECEDENCE))


class ToolUseRow(SampleRow):
    """One sample and its calls."""

    calls: tuple[CallUse, ...]


class OperationShare(Record):
    """One operation in some samples."""

    operation: Operation
    calls: Rate
    """Of calls that ended well."""
    samples: Rate
    """Of samples."""
    labels: Rate | None = None
    """Of calls that ended well, those that have it as their one label: these shares add up to 1. None in older ones."""


class CallBucket(Record):
    """Samples by their number of calls."""

    label: Name
    """`0`, `1`, `2`, `3+`."""
    samples: Rate
    """Of all samples."""
    accuracy: Mean | None
    """Inside the bucket; None if none of its samples is graded."""
    correct: Rate
    """Right ones of the bucket, over all graded samples: the green part of a bar of figure 8."""


class Use(Record):
    """Tool use of some samples."""

    samples: NonNegativeInt
    calls: NonNegativeInt
    failed: NonNegativeInt
    """Calls that did not end well."""
    operations: tuple[OperationShare, ...]
    """Those that occur, in the order of `Operation`."""
    buckets: tuple[CallBucket, ...]
    histogram: Mapping[int, NonNegativeInt]
    """Number of calls -> samples (PyVision-RL, figures 22 and 24)."""
    calls_per_sample: FiniteFloat | None


class ToolUse(Findings):
    """How often code and tools were used, and for what."""

    protocol: Literal["tool_use"] = "tool_use"
    total: Use
    sources: Mapping[str, Use]
    """By benchmark."""
    tools: Mapping[str, NonNegativeInt]
    """Typed tool -> calls."""
    rows: tuple[ToolUseRow, ...]
