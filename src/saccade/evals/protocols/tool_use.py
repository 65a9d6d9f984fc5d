"""The tool-use protocol: operations by benchmark, and calls per sample against accuracy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final

from saccade.dialects.registry import recorded_dialect
from saccade.episode.regions import Region
from saccade.errors import SaccadeError
from saccade.evals.protocols.base import Protocol, Studied
from saccade.evals.protocols.findings import Rates, StudiedRun
from saccade.evals.protocols.tool_use_code import CodeReader
from saccade.evals.protocols.tool_use_records import (
    CallBucket,
    CallUse,
    OperationShare,
    ToolUse,
    ToolUseRow,
    Use,
    label_of,
)
from saccade.evals.rows import natural
from saccade.record.content import Code, ImagePart, ToolCall, VideoPart
from saccade.record.execution import HostedCall, Status
from saccade.record.trajectory import Trajectory, Turn
from saccade.rewards.reward import is_call
from saccade.tools.context import Operation
from saccade.tools.registry import tool_class

# What each call of a sample did: what its code says, corrected by what came of it.
#
# Numbers count as analysed only if they were printed; a picture is enlarged only if one came back that is larger than
# what it shows; a part that came back pixel for pixel was cut out, whatever the code looks like; a video's pictures are
# its frames.


def call_uses(studied: Studied) -> Iterator[CallUse]:
    """What the calls did, in their order."""
    reader = _reader(studied.trajectory)
    for number, turn in enumerate(studied.trajectory.turns):
        yield from (_hosted(number, call, reader) for call in turn.hosted if call.execution.status is not Status.LOST)
        run, action = turn.execution, turn.action
        if run is None or not is_call(turn):
            continue
        if isinstance(action, Code):
            said = reader.read(action.code)
            operations = _corrected(set(said), number, turn, studied, narrowed=reader.narrowed)
        else:
            operations = _by_tool(action) if isinstance(action, ToolCall) else {Operation.OTHER}
        yield CallUse(
            turn=number,
            tool=action.name if isinstance(action, ToolCall) else "",
            status=run.status,
            operations=tuple(one for one in Operation if one in operations),
            label=label_of(operations),
            pictures=len(run.pictures),
        )


def _by_tool(call: ToolCall) -> set[Operation]:
    """Return what the class of the registered tool says of the call; `other` for a tool that is not registered."""
    kind = tool_class(call.name)
    return {Operation.OTHER} if kind is None else set(kind.operations(call.arguments))


def _hosted(number: int, call: HostedCall, reader: CodeReader) -> CallUse:
    """A call of a provider's sandbox, by what its code says alone; what a shell or an editor did is `other`."""
    found = set(reader.read(call.code)) if call.language == "python" else {Operation.OTHER}
    return CallUse(
        turn=number,
        tool=call.tool,
        status=call.execution.status,
        operations=tuple(one for one in Operation if one in found) or (Operation.NO_OPERATION,),
        label=label_of(found or {Operation.NO_OPERATION}),
        pictures=len(call.execution.pictures),
    )


def _corrected(
    operations: set[Operation], number: int, turn: Turn, studied: Studied, *, narrowed: bool
) -> set[Operation]:
    """`narrowed`: the axes of a picture show a part of it, which a figure of any size enlarges."""
    run, task = turn.execution, studied.trajectory.task
    assert run is not None
    shown = [picture.image for picture in run.pictures]
    if not (run.stdout.strip() or run.value):
        operations.discard(Operation.NUMERICAL_ANALYSIS)
    # Regions are sought in pixels, so only where something came back that the code does not explain.
    needed = shown and (Operation.ZOOM in operations or not operations - {Operation.OTHER})
    looked = [region for region in studied.regions if region.turn == number] if needed else []
    if any(region.seen and not _is_full_picture(region, studied.trajectory) for region in looked):
        operations.add(Operation.CROP)
    cut_somewhere = Operation.CROP in operations and not looked
    if not shown or not (narrowed or cut_somewhere or _enlarged(shown, looked, studied.trajectory)):
        operations.discard(Operation.ZOOM)
    video = any(isinstance(item.part, VideoPart) for item in task.media)
    if video and shown and not operations - {Operation.OTHER}:
        operations.add(Operation.FRAME_FETCH)
    if len(operations) > 1:
        operations.discard(Operation.OTHER)
    return operations or {Operation.NO_OPERATION}


def _enlarged(shown: list[ImagePart], looked: list[Region], trajectory: Trajectory) -> bool:
    """Whether a picture is larger than a part that was cut out, or else than the smallest of the task's pictures."""
    areas = [(region.box[2] - region.box[0]) * (region.box[3] - region.box[1]) for region in looked]
    areas = areas or [item.part.width * item.part.height for item in trajectory.task.media]
    return not areas or any(part.width * part.height > min(areas) for part in shown)


def _is_full_picture(region: Region, trajectory: Trajectory) -> bool:
    return any(
        item.name == region.name and region.box == (0, 0, item.part.width, item.part.height)
        for item in trajectory.task.media
    )


def _reader(trajectory: Trajectory) -> CodeReader:
    """A reader that knows what the first code found bound."""
    try:
        opening = recorded_dialect(trajectory.provenance.dialect).open(trajectory.task)
    except SaccadeError:
        return CodeReader()
    videos = {item.name for item in trajectory.task.media if isinstance(item.part, VideoPart)}
    return CodeReader(
        pictures={name for name, media in opening.bindings.items() if media not in videos},
        videos={name for name, media in opening.bindings.items() if media in videos},
    )


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
