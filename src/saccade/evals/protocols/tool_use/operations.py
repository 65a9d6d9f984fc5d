"""What each call of a sample did: what its code says, corrected by what came of it.

Numbers count as analysed only if they were printed; a picture is enlarged only if one came back that is larger than
what it shows; a part that came back pixel for pixel was cut out, whatever the code looks like; a video's pictures are
its frames.
"""

from __future__ import annotations

from collections.abc import Iterator

from saccade.dialects.registry import recorded_dialect
from saccade.errors import SaccadeError
from saccade.evals.protocols.base import Studied
from saccade.evals.protocols.tool_use.code import CodeReader
from saccade.evals.protocols.tool_use.records import CallUse, label_of
from saccade.looks.regions import Region
from saccade.record.action import Code, ToolCall
from saccade.record.content import ImagePart, VideoPart
from saccade.record.hosted_call import HostedCall
from saccade.record.status import Status
from saccade.record.trajectory import Trajectory
from saccade.record.turn import Turn
from saccade.rewards.reading import is_call
from saccade.tools.operation import Operation
from saccade.tools.registry import tool_class


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
