"""The seam to the providers' own client packages: imports them late and converts their exceptions to ours.

OpenAI's and Anthropic's packages come from one generator and name their exceptions alike, which `PackageErrors` reads;
another client reads its own (`hosted.HostedModel.failure`). No converted error keeps a chain to the
original one, which holds the request; and no message holds the key. An exception that is not about the connection or
the server's answer passes through: it is a fault of ours.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from saccade.core.retry import OutageError, retry_after
from saccade.errors import ContextLimitError, ModelDeniedError, ModelRefusedError, SaccadeError, UnavailableError
from saccade.models.error_words import ErrorWords
from saccade.models.keys import ApiKey

T = TypeVar("T")

_TIME_OUT = 408
_TOO_MANY = 429
_DENIED = frozenset({401, 402, 403, 404, _TOO_MANY})
"""No other request would be accepted either; a 429 only gets so far when the budget is spent."""
_NAMED_IN_WORDS = ("temperature", "top_p")
"""Parameters that some models do not take at all; not every server names them but in its words."""
_UNKNOWN = re.compile(r"support|deprecat|only the default|not allowed|cannot be set|may only be", re.IGNORECASE)
_ADVICE = {
    400: "Correct the request: model, settings, size of the context and pictures.",
    401: "Check the key in the environment.",
    403: "Check what the key may do.",
    404: "Check the model's name and the server's address.",
    413: "Send fewer or smaller pictures.",
    422: "Correct the request: the server does not know a field of it, or a value.",
    429: "Check plan and budget with the provider.",
}
_LONGEST_DETAIL = 600
"""Characters of a server's own words in a message."""


class RefusedParameterError(ModelRefusedError):
    """The server does not know a parameter of the request; `parameter` names it."""

    def __init__(self, message: str, parameter: str) -> None:
        super().__init__(message)
        self.parameter = parameter


def load_client(name: str) -> ModuleType:
    """The client package of that name.

    Raises:
        UnavailableError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        raise UnavailableError(
            f"the client package `{name}` is not installed. Run: pip install 'saccade[models]'"
        ) from missing


async def converted(
    call: Callable[[], Awaitable[T]],
    read: Callable[[Exception], SaccadeError | None],
    *,
    key: ApiKey,
    who: str,
    seconds: float,
) -> T:
    """What `call` gives within `seconds`; its connection and server errors as errors of ours.

    Args:
        call: one try.
        read: the error of ours for one of the client package; None for what is no failure of connection or server.
        key: hidden in every message.
        who: the model's name for messages.
        seconds: for the whole try, answer included.

    Raises:
        OutageError: another try may cure it.
        ContextLimitError: the messages do not fit the model's context.
        ModelRefusedError: no try can cure it.
    """
    try:
        async with asyncio.timeout(seconds):
            return await call()
    except TimeoutError:
        failure: SaccadeError = OutageError(f"{who} did not finish its answer within {seconds:g} s (retry.seconds).")
    except OutageError as error:
        failure = OutageError(key.hide(f"{who} {error}"), error.retry_after)
    except Exception as error:
        ours = read(error)
        if ours is None:
            raise
        failure = ours
    raise failure


@dataclass(frozen=True, slots=True)
class PackageErrors:
    """Reads the exceptions of a client package that names them as OpenAI's and Anthropic's do."""

    package: Any
    key: ApiKey
    who: str
    """The model's name for messages."""
    address: str
    """Of its server, for messages."""
    words: ErrorWords
    """How its provider says what no status says."""

    def __call__(self, error: Exception) -> SaccadeError | None:
        """The error of ours; None for what is not about the connection or the server's answer."""
        package, who = self.package, self.who
        if isinstance(error, package.APIStatusError):
            return self.of_status(int(error.status_code), _details(error), retry_after(error.response.headers))
        detail = self.key.hide(str(error))[:_LONGEST_DETAIL].rstrip(".")
        if isinstance(error, package.APITimeoutError):
            return self.unreachable("no connection in time")
        if isinstance(error, package.APIConnectionError):
            cause = self.key.hide(str(error.__cause__ or error)).strip().rstrip(".")
            cause = cause or type(error.__cause__ or error).__name__
            return self.unreachable(cause)
        if isinstance(error, package.APIError):
            if self.words.says_context_is_full(*_details(error).texts):
                return _context_limit(detail, who)
            return OutageError(f"{who} broke off with an error: {detail}.")
        return self.unreadable(error)

    def unreadable(self, error: Exception, also: tuple[str, ...] = ()) -> OutageError | None:
        """The error of ours for an answer that cannot be read, raised by the HTTP client or a package of `also`."""
        # No wider: a listener's own ValueError or BrokenPipeError is none of the server's.
        unreadable = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
        if unreadable or type(error).__module__.partition(".")[0] in ("httpx", "httpx2", *also):
            detail = self.key.hide(str(error))[:_LONGEST_DETAIL].rstrip(".")
            return OutageError(f"{self.who} sent an answer that cannot be read: {type(error).__name__}: {detail}.")
        return None

    def unreachable(self, cause: str) -> OutageError:
        """The error of ours where there is no connection."""
        return OutageError(f"{self.who} cannot be reached at {_shown(self.address)}: {cause[:_LONGEST_DETAIL]}.")

    def of_status(self, status: int, details: ErrorDetails, wait: float | None) -> SaccadeError:
        """The error of ours for an HTTP status; `wait` is how many seconds the server asks to wait, if it does."""
        who = self.who
        detail = self.key.hide(details.words)[:_LONGEST_DETAIL]
        # Some servers say so with a 500, which would be tried again. A 429 speaks of tokens in a minute.
        if status != _TOO_MANY and self.words.says_context_is_full(*details.texts):
            return _context_limit(detail, who)
        if status == _TOO_MANY and details.code not in self.words.spent_codes:
            return OutageError(f"{who} asks for a pause (429): {detail}.", wait)
        if status == _TIME_OUT or status >= 500 or status < 400:  # below 400: an error inside a stream that had begun
            return OutageError(f"{who} failed ({status}): {detail}.", wait)
        advice = _ADVICE.get(status, "No retry can help; correct the request.")
        message = f"{who} refused the request ({status}): {detail}. {advice}"
        if status in _DENIED:
            return ModelDeniedError(message)
        parameter = _refused_parameter(details)
        return RefusedParameterError(message, parameter) if parameter else ModelRefusedError(message)


def _refused_parameter(details: ErrorDetails) -> str:
    """The parameter that the server does not know; empty if it knows it, and refuses its value or something else."""
    refused = _UNKNOWN.search(details.words)
    name = details.parameter or next((name for name in _NAMED_IN_WORDS if refused and name in details.words), "")
    return "" if name in _NAMED_IN_WORDS and not refused else name


def _shown(address: str) -> str:
    """The address without what may be secret in it."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def _context_limit(detail: str, who: str) -> ContextLimitError:
    return ContextLimitError(
        f"{who} says that the context is full: {detail}. "
        "Serve it with a longer one, show smaller or fewer pictures (media.shown_pixels), or allow fewer turns."
    )


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """What a server says of an error; empty where it says nothing."""

    words: str
    code: str
    kind: str
    parameter: str

    @property
    def texts(self) -> tuple[str, str, str]:
        """What may say that the context is full."""
        return self.words, self.code, self.kind


def _details(error: Any) -> ErrorDetails:
    body = error.body
    inner = body.get("error", body) if isinstance(body, dict) else {}
    if not isinstance(inner, dict):
        inner = {}
    words = inner.get("message") or inner.get("detail") or error.message  # detail: servers built on FastAPI
    code, kind, parameter = (str(inner.get(name) or "") for name in ("code", "type", "param"))
    return ErrorDetails(str(words).strip().rstrip("."), code, kind, parameter)
