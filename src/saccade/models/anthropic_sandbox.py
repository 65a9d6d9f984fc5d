"""Anthropic's code execution tool, as pure data: what is asked, and what is read of its blocks.

The tool gives the model a shell (`bash_code_execution`) and a file editor (`text_editor_code_execution`); its first
version gave it Python (`code_execution`). A turn that the API pauses (`pause_turn`) is sent back as it came, in its
container. The pictures of the question are uploaded and laid into the container beside being shown.

Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/code-execution-tool, types of anthropic 2.11.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from saccade.core.retry import OutageError
from saccade.models.answer import PartialAnswer
from saccade.models.anthropic_wire import EventReader
from saccade.models.hosted_calls import OpenCall, OpenPicture, as_json, decoded
from saccade.record.status import Status

TOOL: Final[Mapping[str, Any]] = {"type": "code_execution_20250825", "name": "code_execution"}
MOST_PAUSES: Final = 20
"""Pauses of one answer that are continued."""
_RESULTS: Final = ("code_execution_tool_result", "bash_code_execution_tool_result")
_EDITED: Final = "text_editor_code_execution_tool_result"
_STATUSES: Final = {
    "execution_time_exceeded": Status.TIMEOUT,
    "unavailable": Status.LOST,
    "too_many_requests": Status.LOST,
    "container_expired": Status.LOST,
    "invalid_tool_input": Status.REFUSED,
}
"""Of the tool's own errors; any other is an error of the call."""


_GROWS: Final = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""Kind of a piece -> the field of its block that it makes longer."""


def hosted_fields(fields: Mapping[str, Any], uploads: list[str], container: str, said: list[Any]) -> dict[str, Any]:
    """The fields of a request with the tool, the uploaded files beside the question, and the paused turn `said`."""
    messages = [dict(message) for message in fields["messages"]]
    files = [{"type": "container_upload", "file_id": name} for name in uploads]
    last = max(index for index, message in enumerate(messages) if message["role"] == "user")
    messages[last]["content"] = [*messages[last]["content"], *files]
    # The API gives blank texts, and does not take them.
    back = [block for block in said if block["type"] != "text" or block["text"].strip()]
    paused = [{"role": "assistant", "content": back}] if back else []
    more = {"container": container} if container else {}
    return {**fields, "messages": [*messages, *paused], "tools": [dict(TOOL)], **more}


class SandboxReader(EventReader):
    """Reads the events of one request; the calls of all requests of the answer are put into `calls`."""

    def __init__(self, answer: PartialAnswer, calls: list[OpenCall], files: dict[str, OpenCall]) -> None:
        """`files` is filled with the ids of files that came of calls."""
        super().__init__(answer)
        self.paused = False
        """The API wants the turn back."""
        self.container = ""
        self.said: list[dict[str, Any]] = []
        """The blocks, as they go back to the API."""
        self._calls = calls
        self._files = files
        self._json: dict[int, str] = {}

    def read(self, event: Mapping[str, Any]) -> None:
        """The next event. Raises `OutageError` if it does not follow the protocol."""
        kind = event.get("type")
        try:
            if kind == "content_block_stop":
                self._seal(event["index"])
            held = event.get("delta" if kind == "message_delta" else "message") or {}
            if held.get("container"):
                self.container = str(held["container"]["id"])
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise OutageError(f"sent an event {kind!r} that does not follow the protocol.") from error
        super().read(event)

    def _begin_block(self, index: int, block: Mapping[str, Any]) -> None:
        if index != len(self.said):
            raise OutageError("sent blocks that do not follow each other.")
        self.said.append({name: value for name, value in block.items() if value is not None})
        kind = block["type"]
        if kind == "server_tool_use":
            at = len(self._answer.raw)
            self._calls.append(OpenCall(block["name"], at, call_id=block["id"], container=self.container))
            self._json[index] = ""
        elif kind in (*_RESULTS, _EDITED):
            self._result(kind, block)
        else:
            super()._begin_block(index, block)

    def _add(self, index: int, delta: Mapping[str, Any]) -> None:
        if delta["type"] == "input_json_delta" and index in self._json:
            self._json[index] += delta["partial_json"]
            return
        grows = _GROWS.get(delta["type"])
        if grows is not None:
            self.said[index][grows] = (self.said[index].get(grows) or "") + delta[grows]
        super()._add(index, delta)

    def _seal(self, index: int) -> None:
        """The input of a call is whole."""
        if index not in self._json:
            return
        call, text = self._calls[-1], self._json[index]
        given = json.loads(text) if text else self.said[index].get("input") or {}
        if not isinstance(given, dict):
            raise ValueError("the input of a call is no object")
        self.said[index]["input"] = given
        for name, language in (("code", "python"), ("command", "bash")):
            if isinstance(given.get(name), str) and (name == "code" or set(given) <= {"command", "restart"}):
                call.code, call.language = given[name], language
                return
        call.code, call.language = as_json(given), "json"

    def _end(self, delta: Mapping[str, Any]) -> None:
        if delta["stop_reason"] == "pause_turn":
            self.paused = True
        else:
            super()._end(delta)

    def _result(self, kind: str, block: Mapping[str, Any]) -> None:
        call = next((call for call in self._calls if call.call_id == block["tool_use_id"]), None)
        if call is None:
            call = OpenCall(kind.removesuffix("_tool_result"), len(self._answer.raw), call_id=block["tool_use_id"])
            call.notes.append("The provider told the result of this call alone.")
            self._calls.append(call)
        call.container = call.container or self.container
        content = block["content"]
        if content["type"].endswith("_error"):
            call.status = _STATUSES.get(content["error_code"], Status.ERROR)
            words = content.get("error_message")
            call.reason = f"{content['error_code']}: {words}" if words else str(content["error_code"])
        elif kind == _EDITED:
            _read_edit(call, content)
        else:
            self._read_run(call, content)

    def _read_run(self, call: OpenCall, content: Mapping[str, Any]) -> None:
        code = content["return_code"]
        call.status = Status.OK if code == 0 else Status.ERROR
        call.reason = "" if code == 0 else f"return code {code}"
        call.stderr = content["stderr"]
        if "encrypted_stdout" in content:
            call.notes.append("The provider keeps what was printed to itself (encrypted).")
        else:
            call.stdout = content["stdout"]
        self._files.update({item["file_id"]: call for item in content.get("content") or ()})


def _read_edit(call: OpenCall, content: Mapping[str, Any]) -> None:
    """What the file editor gave back: a view, or what it changed."""
    call.status = Status.OK
    if content.get("file_type") == "image":
        call.pictures.append(OpenPicture(decoded(content["content"]), "file"))
    elif "content" in content:
        call.stdout = str(content["content"])
    else:
        call.stdout = as_json({name: value for name, value in content.items() if name != "type" and value is not None})
