"""What comes back over HTTP, as JSON: whole bodies, the events of a stream, and errors that come with a status of 200.

The client packages ask and raise what a status says; the bodies are read here, because the packages drop what is not of
their service: the first event after a byte order mark, an error inside a choice, arguments that are an object.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from saccade.models.failures import SentError, error_details

DONE: Final = "[DONE]"
_LINE: Final = re.compile(r"\r\n|\n|\r(?!\Z)")
"""A carriage return at the end of what has come may be half of an end of line."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One piece of an answer."""

    body: Any
    """Its JSON; None for the mark that ends a stream."""
    whole: bool = False
    """It is the answer as a whole, and no event of a stream."""


class _Events:
    """Puts the events of a stream together from its text, piece by piece."""

    def __init__(self) -> None:
        self._rest = ""
        self._data: list[str] = []
        self._name = ""

    def feed(self, text: str, *, last: bool = False) -> Iterator[Sent]:
        """Yield the events that are complete with `text`."""
        *lines, self._rest = _LINE.split(self._rest + text)
        if last:
            lines += [self._rest.rstrip("\r"), ""]
        for line in lines:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                yield from self._event()
            elif name == "data":
                self._data.append(value)
            elif name == "event":
                self._name = value

    def _event(self) -> Iterator[Sent]:
        data, name = "\n".join(self._data).strip(), self._name
        self._data, self._name = [], ""
        if data.startswith(DONE):
            yield Sent(None)
        elif data:
            body = json.loads(data)
            raise_sent(body, flat=name == "error")
            yield Sent(body)


async def sent(response: Any) -> AsyncIterator[Sent]:
    """Yield the events of an answer that was asked for as a stream; or its body, where it came as a whole. Raises
    `SentError` if the server sent an error, `ValueError` if what came is no JSON.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    events, head, is_whole = _Events(), "", None
    async for data in response.aiter_bytes():
        text = decoder.decode(data)
        if is_whole is None:
            head += text
            begun = head.removeprefix("\ufeff").lstrip()
            if not begun:
                continue
            is_whole, text = begun.startswith(("{", "[")), begun
            head = text if is_whole else ""
        elif is_whole:
            head += text
        if not is_whole:
            for event in events.feed(text):
                yield event
    if is_whole:
        yield Sent(json.loads(head + decoder.decode(b"", True)), whole=True)
    else:
        for event in events.feed(decoder.decode(b"", True), last=True):
            yield event


def sent_whole(content: bytes) -> list[Sent]:
    """Return the body of an answer that was asked for as a whole; or its events, where it came as a stream. Raises
    `SentError` if the server sent an error, `ValueError` if what came is no JSON.
    """
    text = content.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    if text.startswith(("data:", "event:", ":", "id:")):
        return list(_Events().feed(text, last=True))
    return [Sent(json.loads(text), whole=True)]


# Errors that come with a status of 200: in a body, in a choice, in an event of a stream.

_CODES: Final[Mapping[int, str]] = {
    400: "badrequesterror bad_request failed_precondition context_length_exceeded value_error validation_error "
    "string_above_max_length unprocessableentityerror empty_image_file failed_to_download_image",
    401: "invalid_api_key authentication_error unauthenticated unauthorized authenticationerror",
    402: "billing_error insufficient_credits payment_required",
    403: "permission_error permission_denied forbidden permissiondeniederror",
    404: "not_found_error notfounderror not_found model_not_found",
    413: "request_too_large image_too_large image_file_too_large",
    429: "rate_limit_error rate_limit_exceeded ratelimiterror resource_exhausted too_many_requests insufficient_quota",
}
_STATUS: Final = {word: status for status, words in _CODES.items() for word in words.split()}
_REFUSES: Final = re.compile(r"^(invalid|unsupported|image_|content_filter|content_policy)")


def raise_sent(body: object, *, flat: bool = False) -> None:
    """Raise the error that `body` holds under `error`, or is itself where `flat` allows it.

    Raises:
        SentError: it holds one; its own code says whether another try may help, and without one it may.
    """
    if not isinstance(body, Mapping):
        return
    error = body.get("error")
    if not error and isinstance(base := body.get("base_resp"), Mapping) and base.get("status_code"):  # MiniMax
        error = {"message": base.get("status_msg"), "code": base["status_code"]}
    if not error and (flat or body.get("object") == "error"):
        error = body
    if error:
        inner: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": str(error)}
        raise SentError(_status(inner), error_details(inner, "no reason was given"))


def _status(error: Mapping[str, Any]) -> int:
    values = [error.get(name) for name in ("code", "status", "status_code", "http_code", "type")]
    for value in values:
        if str(value).isdigit() and 400 <= int(str(value)) < 600:
            return int(str(value))
    words = [str(value).lower() for value in values if isinstance(value, str)]
    for word in words:
        if word in _STATUS or _REFUSES.match(word):
            return _STATUS.get(word, 400)
    return 500
