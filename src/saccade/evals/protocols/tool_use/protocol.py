"""The tool-use protocol: operations by benchmark, and calls per sample against accuracy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Final

from saccade.evals.protocols.base import Protocol, Studied
from saccade.evals.protocols.findings import StudiedRun
from saccade.evals.protocols.rates import Rates
from saccade.evals.protocols.tool_use.operations import call_uses
from saccade.evals.protocols.tool_use.records import (
    CallBucket,
    OperationShare,
    ToolUse,
    ToolUseRow,
    Use,
)
from saccade.evals.rows import natural
from saccade.record.status import Status
from saccade.tools.operation import Operation

_LAST: Final = 3
"""Calls from which samples share a bucket, as in CodeV's figure."""


def row(studied: Studied) -> ToolUseRow:
    """The row of one sample: its calls, in order."""
    return ToolUseRow(**studied.head, calls=tuple(call_uses(studied)))


def findings(rows: Sequence[ToolUseRow], about: StudiedRun) -> ToolUse:
    """The findings of all rows."""
    sources = sorted({row.source for row in rows}, key=natural)
    groups = {source: [row for row in rows if row.source == source] for source in sources}
    return ToolUse(
        about=about,
        total=use(rows),
        sources={source: use(group) for source, group in groups.items()},
        tools=dict(sorted(Counter(call.tool for row in rows for call in row.calls if call.tool).items())),
        rows=tuple(rows),
    )


def use(rows: Sequence[ToolUseRow]) -> Use:
    """Tool use of some samples."""
    rates = Rates(rows)
    well = [[call for call in row.calls if call.status is Status.OK] for row in rows]
    calls = [len(row.calls) for row in rows]
    seen = {operation for listed in well for call in listed for operation in call.operations}
    kinds = [operation for operation in Operation if operation in seen]
    counts = [[sum(kind in call.operations for call in listed) for listed in well] for kind in kinds]
    of_calls = rates.shares([[(one, len(listed)) for one, listed in zip(col, well, strict=True)] for col in counts])
    labelled = [[sum(call.label is kind for call in listed) for listed in well] for kind in kinds]
    of_labels = rates.shares([[(one, len(listed)) for one, listed in zip(col, well, strict=True)] for col in labelled])
    of_samples = rates.rates([[one > 0 for one in column] for column in counts])
    return Use(
        samples=len(rows),
        calls=sum(calls),
        failed=sum(calls) - sum(map(len, well)),
        operations=tuple(
            OperationShare(operation=kind, calls=share, samples=samples, labels=labels)
            for kind, share, samples, labels in zip(kinds, of_calls, of_samples, of_labels, strict=True)
        ),
        buckets=_buckets(rows, rates),
        histogram=dict(sorted(Counter(calls).items())),
        calls_per_sample=fmean(calls) if calls else None,
    )


def _buckets(rows: Sequence[ToolUseRow], rates: Rates) -> tuple[CallBucket, ...]:
    numbers = [min(len(row.calls), _LAST) for row in rows]
    span = range(_LAST + 1)
    samples = rates.rates([[number == bucket for number in numbers] for bucket in span])
    inside = [[row.correct if n == bucket else None for row, n in zip(rows, numbers, strict=True)] for bucket in span]
    correct = [
        [None if row.correct is None else row.right and n == bucket for row, n in zip(rows, numbers, strict=True)]
        for bucket in span
    ]
    made = zip(span, samples, rates.credits(inside), rates.rates(correct), strict=True)
    return tuple(
        CallBucket(label=f"{bucket}+" if bucket == _LAST else str(bucket), samples=one, accuracy=mean, correct=right)
        for bucket, one, mean, right in made
    )


PROTOCOL: Final = Protocol("tool_use", "Tool use (PyVision, CodeV)", ToolUse, row, findings)
