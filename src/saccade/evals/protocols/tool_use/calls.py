"""What typed tools do, by name: the operations of PyVision's taxonomy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from saccade.evals.protocols.tool_use.records import Operation
from saccade.record.action import ToolCall
from saccade.tools.registry import ALIASES

_TOOLS: Final[Mapping[str, Operation]] = {
    "color_mask": Operation.SEGMENT,
    "color_stats": Operation.HISTOGRAM,
    "contours": Operation.DETECT_EDGES,
    "crop": Operation.CROP,
    "draw": Operation.DRAW,
    "edges": Operation.DETECT_EDGES,
    "hough_circles": Operation.DETECT_EDGES,
    "hough_lines": Operation.DETECT_EDGES,
    "match_template": Operation.COMPARE,
    "ocr": Operation.OCR,
    "rotate": Operation.ROTATE,
    "sam": Operation.SEGMENT,
    "select_frames": Operation.FRAME_FETCH,
    "threshold": Operation.SEGMENT,
}


def tool_operations(call: ToolCall) -> frozenset[Operation]:
    """What the call does; `other` for a tool that is not known here."""
    name = ALIASES.get(call.name, call.name)
    operations = {_TOOLS.get(name, Operation.OTHER)}
    scale = call.arguments.get("scale")
    if name == "crop" and isinstance(scale, int | float) and scale > 1:
        operations.add(Operation.ZOOM)
    return frozenset(operations)
