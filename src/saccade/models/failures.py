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
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import urlsplit

from saccade.core.registry import install
from saccade.core.retry import OutageError, retry_after
from saccade.errors import ContextLimitError, ModelDeniedError, ModelRefusedError, SaccadeError, UnavailableError
from saccade.models.thinking import OWN_ERRORS, kind_of

# Full contexts and spent budgets have no standard error code, and any server may answer behind one address, so all
# known words are tried for each provider, which may add its own. Unknown words mean a refused request.


@dataclass(frozen=True, slots=True)
class ErrorWords:
    """How to read a provider's errors."""

    full_context: tuple[str, ...] = ()
    """Regular expressions, any of which in an error's words says that the request does not fit the context."""
    full_context_codes: frozenset[str] = frozenset()
    """Codes and types of errors that say the same."""
    spent_codes: frozenset[str] = frozenset()
    """Codes of a 429 that no waiting cures."""

    def __or__(self, other: ErrorWords) -> ErrorWords:
        """Return both together."""
        return ErrorWords(
            (*self.full_context, *other.full_context),
            self.full_context_codes | other.full_context_codes,
            self.spent_codes | other.spent_codes,
        )

    def says_context_is_full(self, words: str, *codes: str) -> bool:
        """Tell whether a server's `words`, or one of its `codes` and types, say that the context is too short."""
        if not self.full_context_codes.isdisjoint(codes):
            return True
        return bool(self.full_context) and _any_of(self.full_context).search(words) is not None


@cache
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.DOTALL)


COMMON: Final = ErrorWords(
    full_context=(
        r"maximum context length",  # OpenAI, Azure, vLLM, SGLang, OpenRouter, Mistral, llama-cpp-python
        r"maximum prompt length",  # xAI
        r"longer than the (model's context length|maximum model length)",  # SGLang; vLLM
        r"exceeds the maximum allowed (input )?length",  # SGLang
        r"max_tokens must be at least 1, got -",  # vLLM: nothing is left for the answer
        r"prompt is too long",  # Anthropic, and SGLang of pictures
        r"exceeds? (the )?context (window|size|length)",  # OpenAI
        r"exceeds the available context size",  # llama.cpp
        r"context size has been exceeded",  # llama.cpp
        r"input tokens exceed the configured limit",  # OpenAI
        r"input token count .{0,40}exceeds the maximum number of tokens",  # Google
        r"input is too long for requested model",  # Bedrock
        r"`inputs` tokens \+ `max_new_tokens` must be",  # text-generation-inference
    ),
    full_context_codes=frozenset({"context_length_exceeded", "context_window_exceeded", "exceed_context_size_error"}),
    spent_codes=frozenset({"insufficient_quota", "billing_hard_limit_reached"}),
)
"""What any server may say."""


class ApiKey:
    """A secret that can only be read on purpose."""

    __slots__ = ("_value", "advice")

    def __init__(self, value: str, advice: str = "Check the key that was given.") -> None:
        self._value = value
        self.advice = advice
        """What to do where it is refused: names where it comes from."""

    def __repr__(self) -> str:
        return "ApiKey(hidden)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is never pickled or copied; read it from the environment where it is needed")

    def reveal(self) -> str:
        """Return the secret; for the client that sends it."""
        return self._value

    def hide(self, text: str) -> str:
        """Return `text` with the secret blotted out, for messages of servers that repeat what they were sent."""
        return text.replace(self._value, "[key]") if self._value else text


def find_key(provider: str, given: str | None = None, *, usual: Sequence[str] = (), needed: bool = True) -> ApiKey:
    """Return the key for `provider`: `given`, or of the environment; empty if there is none and none is needed.

    Args:
        provider: its name.
        given: a key that comes before the environment.
        usual: variables of the environment to look in after `SACCADE_<PROVIDER>_API_KEY`.
        needed: whether the provider answers nobody without one.

    Raises `ModelRefusedError`: there is none, and one is needed.
    """
    names = [f"SACCADE_{provider.upper().replace('-', '_')}_API_KEY", *usual]
    if given:
        return ApiKey(given)
    found = next((name for name in names if os.environ.get(name)), "")
    if needed and not found:
        raise ModelRefusedError(f"there is no key for {provider}. Set {names[-1]} in the environment.")
    if not found:
        return ApiKey("", f"No key was sent: set {names[-1]} in the environment.")
    return ApiKey(os.environ[found], f"Check the key in the environment, {found}.")


T = TypeVar("T")

_NO_KEY = 401
_TIME_OUT = 408
_TOO_MANY = 429
_DENIED = frozenset({401, 402, 403, 404, _TOO_MANY})
"""No other request would be accepted either; a 429 only gets so far when the budget is spent."""
_NAMED_IN_WORDS = ("temperature", "top_p")
"""Parameters that some models do not take at all; not every server names them but in its words."""
_UNKNOWN = re.compile(r"support|deprecat|only the default|not allowed|cannot be set|may only be", re.IGNORECASE)
_ADVICE = {
    400: "Correct the request: model, settings, size of the context and pictures.",
    403: "Check what the key may do.",
    404: "Check the model's name and the server's address.",
    413: "Send fewer or smaller pictures.",
    422: "Correct the request: the server does not know a field of it, or a value.",
    429: "Check plan and budget with the provider.",
}
_LONGEST_DETAIL = 600
"""Characters of a server's own words in a message."""


class SentError(Exception):
    """An error that the server sent with a status of 200."""

    def __init__(self, status: int, details: ErrorDetails) -> None:
        super().__init__(details.words)
        self.status = status
        """What its code means as a status of HTTP."""
        self.details = details


class FilteredRequestError(ModelRefusedError):
    """The provider's filter keeps the request from the model."""


class OtherMannerError(ModelRefusedError):
    """The server does not take the request as it is put; `kind` says what, as `saccade.models.thinking` names it."""

    def __init__(self, message: str, kind: str, words: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.words = words
        """Of the server."""


class RefusedParameterError(ModelRefusedError):
    """The server does not know a parameter of the request; `parameter` names it."""

    def __init__(self, message: str, parameter: str) -> None:
        super().__init__(message)
        self.parameter = parameter


def load_client(name: str) -> ModuleType:
    """Return the client package of that name. Raises `UnavailableError` if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        raise UnavailableError(f"the client package `{name}` is not installed. Run: {install('models')}") from missing


async def converted(
    call: Callable[[], Awaitable[T]],
    read: Callable[[Exception], SaccadeError | None],
    *,
    key: ApiKey,
    who: str,
    seconds: float,
) -> T:
    """Return what `call` gives within `seconds`; its connection and server errors as errors of ours.

    Args:
        call: one try.
        read: the error of ours for one of the client package; None for what is no failure of connection or server.
        key: hidden in every message.
        who: the model's name for messages.
        seconds: for the whole try, answer included.

    Raises `OutageError`: another try may cure it; `ContextLimitError`: the messages do not fit the model's context;
    `ModelRefusedError`: no try can cure it.
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
        """Return the error of ours; None for what is not about the connection or the server's answer."""
        package, who = self.package, self.who
        if isinstance(error, SentError):
            return self.of_status(error.status, error.details, None)
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
        """Make our error for an answer that cannot be read, raised by the HTTP client or a package of `also`."""
        # No wider: a listener's own ValueError or BrokenPipeError is none of the server's.
        unreadable = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
        if unreadable or type(error).__module__.partition(".")[0] in ("httpx", "httpx2", *also):
            detail = self.key.hide(str(error))[:_LONGEST_DETAIL].rstrip(".")
            return OutageError(f"{self.who} sent an answer that cannot be read: {type(error).__name__}: {detail}.")
        return None

    def unreachable(self, cause: str) -> OutageError:
        """Return the error of ours where there is no connection."""
        return OutageError(f"{self.who} cannot be reached at {_shown(self.address)}: {cause[:_LONGEST_DETAIL]}.")

    def of_status(self, status: int, details: ErrorDetails, wait: float | None) -> SaccadeError:
        """Return the error of ours for an HTTP status.

        `wait` is how many seconds the server asks to wait, if it does.
        """
        who = self.who
        detail = self.key.hide(details.words)[:_LONGEST_DETAIL]
        # Some servers say so with a 500, which would be tried again. A 429 speaks of tokens in a minute.
        if status != _TOO_MANY and self.words.says_context_is_full(*details.texts):
            return _context_limit(detail, who)
        if status == _TOO_MANY and details.code not in self.words.spent_codes:
            return OutageError(f"{who} asks for a pause (429): {detail}.", wait)
        kind = (
            ""
            if status in (*_DENIED, _TIME_OUT)
            else kind_of(status, " ".join((details.words, details.code, details.kind)))
        )
        if kind and (400 <= status < 500 or kind in OWN_ERRORS) and not details.filtered:
            advice = _ADVICE.get(status, _ADVICE[400])
            return OtherMannerError(f"{who} refused the request ({status}): {detail}. {advice}", kind, detail)
        if status == _TIME_OUT or status >= 500 or status < 400:  # below 400: an error inside a stream that had begun
            return OutageError(f"{who} failed ({status}): {detail}.", wait)
        if details.filtered:
            return FilteredRequestError(f"{who} does not let the model read this request ({status}): {detail}.")
        refused_key = self.key.advice if status == _NO_KEY else "No retry can help; correct the request."
        advice = _ADVICE.get(status, refused_key)
        message = f"{who} refused the request ({status}): {detail}. {advice}"
        if status in _DENIED:
            return ModelDeniedError(message)
        parameter = _refused_parameter(details)
        return RefusedParameterError(message, parameter) if parameter else ModelRefusedError(message)


def _refused_parameter(details: ErrorDetails) -> str:
    """Name the parameter that the server does not know; empty if it refuses its value or something else."""
    refused = _UNKNOWN.search(details.words)
    name = details.parameter or next((name for name in _NAMED_IN_WORDS if refused and name in details.words), "")
    return "" if name in _NAMED_IN_WORDS and not refused else name


def _shown(address: str) -> str:
    """Return the address without what may be secret in it."""
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
    def filtered(self) -> bool:
        """Whether a filter of the provider's refuses the request."""
        codes = {self.code.lower(), self.kind.lower()}
        return not _FILTERS.isdisjoint(codes) or _FILTERED.search(self.words) is not None

    @property
    def texts(self) -> tuple[str, str, str]:
        """What may say that the context is full."""
        return self.words, self.code, self.kind


def _details(error: Any) -> ErrorDetails:
    body = error.body[0] if isinstance(error.body, list) and error.body else error.body  # Google sends a list
    page = re.sub(r"(\s|<[^<>]*>)+", " ", body) if isinstance(body, str) else ""
    inner = body.get("error", body) if isinstance(body, dict) else page.strip()
    return error_details(inner if isinstance(inner, dict) else {"message": inner}, error.message)


def error_details(error: Mapping[str, Any], otherwise: str) -> ErrorDetails:
    """Read the object in which a server says what is wrong; `otherwise` are the words where it has none."""
    # detail: servers built on FastAPI; msg: GLM; Message: AWS; error_msg: Baidu; error: a text in place of an object
    names = ("message", "detail", "msg", "Message", "error_msg", "error_message", "error")
    words = str(next((value for name in names if (value := error.get(name))), otherwise))
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None  # OpenRouter: the words of who it asked
    if raw and str(raw) not in words:
        words = f"{words.rstrip('.')}: {str(raw)[:_LONGEST_DETAIL]}"
    code, kind, parameter = (str(error.get(name) or "") for name in ("code", "type", "param"))
    return ErrorDetails(words.strip().rstrip("."), code, kind, parameter)


_FILTERS: Final = frozenset(
    {"content_filter", "content_policy_violation", "image_content_policy_violation", "moderation_blocked"}
    | {"data_inspection_failed", "datainspectionfailed", "1301"}  # Alibaba; GLM
)
_FILTERED: Final = re.compile(
    r"content management policy|violat\w* (of )?(our|the|its)? ?(usage|content) polic|inappropriate content"
    r"|requires moderation|(input|prompt|request) was flagged",
    re.IGNORECASE,
)
