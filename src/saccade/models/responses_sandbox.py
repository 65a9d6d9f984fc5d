"""The code interpreter of OpenAI's Responses API, as pure data: what is asked, and what is read of its calls.

Each answer gets a container of its own, made before and deleted after it, in which the pictures of the question lie as
they are; what the code leaves there is listed and fetched. The protocol calls a call completed also where the code
raised an exception: that stands in the output alone.

Source: https://platform.openai.com/docs/guides/tools-code-interpreter, and the types of openai 3.52.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from saccade.models.answer import PartialAnswer
from saccade.models.hosted_calls import OpenCall, add_url
from saccade.models.responses_wire import ResponseReader
from saccade.record.status import Status

OUTPUTS: Final = "code_interpreter_call.outputs"
TOOL_NAME: Final = "code_interpreter"
_STATUSES: Final = {
    "completed": Status.OK,
    "failed": Status.ERROR,
    **dict.fromkeys(("incomplete", "in_progress", "interpreting"), None),
}
"""None where the call had not ended."""


def hosted_fields(fields: Mapping[str, Any], container: str) -> dict[str, Any]:
    """The fields of a request with the tool in that container, whose outputs come back."""
    return {**fields, "tools": [{"type": TOOL_NAME, "container": container}], "include": [OUTPUTS]}


class InterpreterReader(ResponseReader):
    """Reads a response and its calls, which are put into `calls`."""

    def __init__(self, answer: PartialAnswer, calls: list[OpenCall]) -> None:
        super().__init__(answer)
        self._calls = calls

    def _item(self, item: Mapping[str, Any]) -> None:
        if item["type"] != "code_interpreter_call":
            super()._item(item)
            return
        call = OpenCall(TOOL_NAME, len(self._answer.raw), call_id=item["id"], container=item.get("container_id") or "")
        if item.get("code") is None:
            call.notes.append("The provider does not tell the code.")
        call.code = item.get("code") or ""
        call.status = _STATUSES[item["status"]]
        call.reason = "" if call.status is Status.OK else f"the provider calls it {item['status']}"
        printed = []
        for output in item.get("outputs") or ():
            if output["type"] == "logs":
                printed.append(output["logs"])
            elif output["type"] == "image":
                add_url(call, output["url"])
            else:
                call.notes.append(f"An output of type {output['type']!r} is not known and not kept.")
        call.stdout = "\n".join(printed)
        self._calls.append(call)
