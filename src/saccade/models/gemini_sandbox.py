"""Gemini's code execution tool, as pure data: what is read of the parts of an answer.

The code is a part, its outcome the next, and pictures that it drew are parts of their own behind it. The service lays
the pictures of the question into its sandbox.

Source: https://ai.google.dev/gemini-api/docs/code-execution, and the types of google-genai 3.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from saccade.models.hosted_calls import OpenCall, OpenPicture
from saccade.record.execution import ExecutionFile
from saccade.record.status import Status

TOOL_NAME: Final = "code_execution"
_OK: Final = "OUTCOME_OK"
_STATUSES: Final = {_OK: Status.OK, "OUTCOME_DEADLINE_EXCEEDED": Status.TIMEOUT}
"""Any other is an error of the call."""


def read_part(part: Mapping[str, Any], at: int, calls: list[OpenCall]) -> None:
    """Read a part that is neither text nor a native call, after `at` characters of text, into `calls`."""
    if code := part.get("executable_code"):
        calls.append(OpenCall(TOOL_NAME, at, code=code.get("code") or "", call_id=code.get("id")))
    elif result := part.get("code_execution_result"):
        _read_result(result, at, calls)
    elif blob := part.get("inline_data"):
        call = calls[-1] if calls else _alone(at, calls)
        if str(blob.get("mime_type")).startswith("image/"):
            call.pictures.append(OpenPicture(blob["data"], "display"))
        else:
            call.files.append(ExecutionFile(path=str(blob.get("mime_type")), size=len(blob["data"])))


def _read_result(result: Mapping[str, Any], at: int, calls: list[OpenCall]) -> None:
    call = _called(result.get("id"), calls) or _alone(at, calls)
    outcome = result["outcome"]
    name = str(getattr(outcome, "value", outcome))
    call.status = _STATUSES.get(name, Status.ERROR)
    output = result.get("output") or ""
    if call.status is Status.OK:
        call.stdout = output
    else:
        call.stderr, call.reason = output, name


def _called(call_id: str | None, calls: list[OpenCall]) -> OpenCall | None:
    """The call that a result is for: of its id, or the last one without an outcome."""
    waiting = [call for call in calls if call.status is None]
    if call_id is not None:
        return next((call for call in waiting if call.call_id == call_id), None)
    return waiting[-1] if waiting else None


def _alone(at: int, calls: list[OpenCall]) -> OpenCall:
    call = OpenCall(TOOL_NAME, at)
    call.notes.append("The provider told the outcome of this call alone.")
    calls.append(call)
    return call
