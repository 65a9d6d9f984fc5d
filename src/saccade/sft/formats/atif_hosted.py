"""Calls of a provider's own sandbox in ATIF: a call and a result each, beside those of the turn's own action.

Everything that a reader of ATIF shows is where ATIF has it; what is read back is the record under `extra.saccade`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from saccade.record.content import Part, TextPart
from saccade.record.execution import Execution
from saccade.record.hosted_call import HostedCall
from saccade.sft.formats.atif_content import SPACE, to_content
from saccade.sft.formats.row_files import Row

if TYPE_CHECKING:
    import atif

_KIND: Final = "hosted"


def hosted_calls(calls: Sequence[HostedCall], turn: int, paths: Mapping[str, str]) -> tuple[list[Row], list[Row]]:
    """The calls of turn `turn` (from 0), and their results. `paths` is sha256 -> path."""
    made, results = [], []
    for number, call in enumerate(calls):
        name = f"hosted-{turn}-{number}"
        made.append(
            {
                "tool_call_id": name,
                "function_name": call.tool,
                "arguments": {"code": call.code, "language": call.language},
                "extra": {SPACE: {"kind": _KIND, "call": call.model_dump(mode="json")}},
            }
        )
        content = to_content(_parts(call.execution), paths)
        results.append({"source_call_id": name, "content": content, "extra": {SPACE: {"kind": _KIND}}})
    return made, results


def read_hosted(step: atif.Step) -> tuple[list[Row], list[atif.ToolCall]]:
    """The calls of the provider's sandbox in a step, and its other calls."""
    own: list[atif.ToolCall] = []
    hosted: list[Row] = []
    for call in step.tool_calls or ():
        extra = (call.extra or {}).get(SPACE) or {}
        if extra.get("kind") == _KIND:
            hosted.append({**extra["call"], "code": call.arguments.get("code"), "tool": call.function_name})
        else:
            own.append(call)
    return hosted, own


def own_results(results: Iterable[atif.ObservationResult]) -> list[atif.ObservationResult]:
    """The results that are not those of a provider's sandbox."""
    return [result for result in results if ((result.extra or {}).get(SPACE) or {}).get("kind") != _KIND]


def _parts(execution: Execution) -> tuple[Part, ...]:
    printed = [execution.stdout, execution.stderr, execution.traceback or "", *execution.notes]
    text = "\n".join(piece.rstrip("\n") for piece in printed if piece)
    return (TextPart(text=text or f"({execution.status.value})"), *(picture.image for picture in execution.pictures))
