"""Errors in the form of OpenAI's API: `{"error": {"message", "type", "param", "code"}}` and a status."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from saccade.errors import (
    IsolationError,
    MediaError,
    ModelError,
    RegistryError,
    SaccadeError,
    SandboxError,
    TooLargeError,
)
from saccade.errors import SettingsError as WrongSettingError
from saccade.record.trajectory import StopReason, Trajectory
from saccade.serve.agent_request import RequestError

UNAUTHORIZED: Final = (
    b'{"error": {"message": "this server asks for a token, in the header Authorization as Bearer TOKEN", '
    b'"type": "invalid_request_error", "param": null, "code": "invalid_api_key"}}'
)
_OUTAGES: Final = {
    StopReason.MODEL_LOST: (502, "model_lost"),
    StopReason.MODEL_REFUSED: (502, "model_refused"),
    StopReason.SANDBOX_LOST: (503, "sandbox_lost"),
    StopReason.TOOL_LOST: (503, "tool_lost"),
    StopReason.CANCELLED: (503, "cancelled"),
}
_KINDS: Final[tuple[tuple[type[SaccadeError], int, str], ...]] = (
    (TooLargeError, 413, "too_large"),
    (MediaError, 400, "invalid_image"),
    (RegistryError, 400, "unknown_name"),
    (WrongSettingError, 400, "invalid_value"),
    (IsolationError, 500, "isolation"),
    (SandboxError, 503, "sandbox_lost"),
    (ModelError, 502, "model_lost"),
)
"""What is raised -> status and code; the first that fits."""


def error_body(error: RequestError) -> dict[str, object]:
    """The error as it is sent."""
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    kind = "rate_limit_error" if error.status == 429 else kind
    return {"error": {"message": str(error), "type": kind, "param": error.param, "code": error.code}}


def as_request_error(error: Exception) -> RequestError:
    """Any error as one that can be sent; of a fault of ours the client hears nothing but that it is one."""
    if isinstance(error, RequestError):
        return error
    for kind, status, code in _KINDS:
        if isinstance(error, kind):
            return RequestError(str(error), code=code, status=status)
    if isinstance(error, SaccadeError):
        return RequestError(str(error), code="refused")
    return RequestError("the server failed; its log says why.", code="internal_error", status=500)


def check_outage(trajectory: Trajectory) -> None:
    """Raises `RequestError` if an outage ended the episode."""
    if trajectory.stop in _OUTAGES:
        status, code = _OUTAGES[trajectory.stop]
        detail = trajectory.stop_detail or f"the episode ended as {trajectory.stop.value}."
        raise RequestError(detail, code=code, status=status)


def of_validation(error: ValidationError) -> RequestError:
    """The first mistake of a request's fields."""
    first = error.errors(include_url=False, include_input=False)[0]
    param = ".".join(str(step) for step in first["loc"])[:200] or None
    if first["type"] == "extra_forbidden":
        return RequestError(
            f"the parameter {param!r} is not known here, or cannot be honoured. Leave it out.",
            param=param,
            code="unknown_parameter",
        )
    return RequestError(f"{param or 'the body'}: {first['msg']}.", param=param, code="invalid_value")
