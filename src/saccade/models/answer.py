"""One try's answer while it comes in: text piece by piece, native calls, token ids, and what they make in the end.

Provider-neutral: the wire modules feed it. A native call whose arguments are no JSON object is the model's slip, not an
outage: it is given as text, exactly as it was written, so that a dialect can answer it as a parse error.

Some servers take the model's thought out of the text and send it apart. It is put back as `<think>...</think>` in front
of what follows; blanks that the server dropped around it are lost. A thought after which nothing came stays open, for
it may have been cut.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from saccade.core.retry import OutageError
from saccade.models.base import Completion, StopWatch, Usage, apply_stops, check_stops, unclosed
from saccade.models.failures import SentError, error_details
from saccade.models.tolerances import TOLERANCES, argument_piece, parsed_arguments
from saccade.record.content import ToolCall, clean_text
from saccade.record.execution import HostedCall
from saccade.record.trajectory import FinishReason

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
    400: "bad_request failed_precondition context_length_exceeded value validation string_above_max_length "
    "unprocessable_entity empty_image_file failed_to_download_image 1210 1212 1213 1214 1215",
    401: "invalid_api_key authentication unauthenticated unauthorized 1000 1001 1002 1003 1004",
    402: "billing insufficient_credits insufficient_balance payment_required 1113",
    403: "permission permission_denied forbidden access_denied",
    404: "not_found model_not_found resource_not_found 1211",
    413: "request_too_large image_too_large image_file_too_large",
    429: "rate_limit rate_limit_exceeded resource_exhausted too_many_requests insufficient_quota throttling "
    "1302 1303 1304 1305",
}
"""Status -> codes and types of errors, in small letters without `error` at the end; the numbers are GLM's."""
_STATUS: Final = {word: status for status, words in _CODES.items() for word in words.split()}
_REFUSES: Final = re.compile(r"^(invalid|unsupported|image_|content_filter|content_policy)")
_MINIMAX: Final = {1002: 429, 1004: 401, 1008: 402, 1026: 400, 1027: 400, 1042: 400, 2013: 400, 2049: 401}
_CODE_NAMES: Final = ("code", "status", "status_code", "statusCode", "http_code", "error_code")
_TYPE_NAMES: Final = ("code", "status", "type", "__type", "error_type")
_WORD_NAMES: Final = ("message", "Message", "msg", "detail", "error_msg", "error_message")
_IN_WORDS: Final = re.compile(
    r"\b(?i:error|status)(?: code)?\W{0,3}(?P<code>[45]\d\d)\b|(?P<name>[A-Z]\w+)(?:Error|Exception)\b"
)
_PHRASES: Final = {
    401: re.compile(r"(invalid|incorrect|missing|no) api.?key|unauthorized", re.IGNORECASE),
    404: re.compile(r"\bmodel\b.{0,80}(not found|does not exist)|no such model|\Anot found\W*\Z", re.IGNORECASE),
}


def raise_sent(body: object, *, flat: bool = False) -> None:
    """Raise the error that `body` holds under `error`, or is itself where `flat` allows it or its code says so.

    Raises:
        SentError: it holds one; its own code says whether another try may help, and without one it may.
    """
    if isinstance(body, list) and len(body) == 1:  # Google
        body = body[0]
    if not isinstance(body, Mapping):
        return
    error = body.get("error") or next(iter(body.get("errors") or ()), None)
    if not error and isinstance(base := body.get("base_resp"), Mapping) and base.get("status_code"):  # MiniMax
        error = {"message": base.get("status_msg"), "code": _MINIMAX.get(base["status_code"], base["status_code"])}
    if not error and (body.get("object") == "error" or (not body.get("choices") and (_number(body) or flat))):
        error = body if any(body.get(name) for name in _WORD_NAMES) else None
    if error:
        inner = error if isinstance(error, Mapping) else {**body, "message": str(error), "error": None}
        inner = inner["error"] if isinstance(inner.get("error"), Mapping) else inner
        if isinstance(inner.get("detail"), list):  # FastAPI
            inner = {"code": 422, **inner, "message": json.dumps(inner["detail"])}
        details = error_details(inner, "no reason was given")
        raise SentError(_status(inner, details.words), details)


def _number(error: Mapping[str, Any]) -> int:
    """Return the status of HTTP that an error names; 0 for none."""
    values = (str(error.get(name)) for name in (*_CODE_NAMES, "type"))
    return next((int(value) for value in values if value.isdigit() and 400 <= int(value) < 600), 0)


def _status(error: Mapping[str, Any], words: str) -> int:
    if number := _number(error):
        return number
    if (status := _of_words(str(error[name]) for name in _TYPE_NAMES if error.get(name))) is not None:
        return status
    found = _IN_WORDS.search(words)
    if found and found["code"]:
        return int(found["code"])
    if found and (status := _of_words([found["name"]])) is not None:
        return status
    return next((status for status, phrase in _PHRASES.items() if phrase.search(words)), 500)


def _of_words(words: Iterable[str]) -> int | None:
    for word in words:
        word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", re.split(r"[#.:]", word)[-1]).lower()
        word = re.sub(r"_?(error|exception)$", "", word) or word
        if word in _STATUS or _REFUSES.match(word):
            return _STATUS.get(word, 400)
    return None


_NO_ANSWER = (
    "sent neither an answer nor an error. Is its address right (http://host:8000/v1), with no login page or proxy in "
    "between?"
)


class Listener:
    """Tells `on_text` of pieces; an empty piece says that a broken answer begins again from its start."""

    def __init__(self, on_text: Callable[[str], None] | None) -> None:
        self._on_text = on_text
        self._heard = False

    @property
    def wants_pieces(self) -> bool:
        return self._on_text is not None

    def begin(self) -> None:
        if self._heard and self._on_text is not None:
            self._on_text("")
        self._heard = False

    def hear(self, piece: str) -> None:
        if piece and self._on_text is not None:
            self._heard = True
            self._on_text(piece)


@dataclass(slots=True)
class PartialCall:
    """A native call whose arguments are still coming."""

    name: str = ""
    call_id: str | None = None
    arguments: str = ""
    """JSON text."""
    sealed: str | None = None

    def complete(self, answer: PartialAnswer) -> ToolCall | None:
        """Return the call; None if its arguments are no JSON object."""
        arguments = parsed_arguments(self.arguments, answer)
        if arguments is None:
            return None
        try:
            return ToolCall(name=self.name, arguments=arguments, call_id=self.call_id or None, sealed=self.sealed)
        except ValidationError:
            return None


@dataclass(slots=True)
class PartialAnswer:
    """What came in so far of one answer."""

    stops: tuple[str, ...]
    listener: Listener
    infers_stop: bool = False
    """The server swallows stop strings and does not name them."""
    raw: str = ""
    """All text that was sent, beyond a stop string too."""
    calls: dict[object, PartialCall] = field(default_factory=dict)
    """In the order in which they began."""
    notes: list[str] = field(default_factory=list)
    """For the record: what was bent, and what the provider said of an end."""
    bent: dict[str, str] = field(default_factory=dict)
    """Names in the table of tolerances -> the note, for the log."""
    declined: bool = False
    """The model refused to answer."""
    hosted: tuple[HostedCall, ...] = ()
    """What the provider's sandbox ran, set when all of it is there."""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: FinishReason | None = None
    """None until the server says why it ended."""
    stop_named: str | None = None
    usage: Usage = field(default_factory=Usage)
    cache_written: int = 0
    """Tokens of the prompt that were written to the provider's cache."""
    model: str = ""
    watch: StopWatch = field(init=False)
    _pending: str = ""
    _thinking: bool = False
    """The last piece was of a thought."""

    def __post_init__(self) -> None:
        self.stops = check_stops(self.stops)
        self.watch = StopWatch(self.stops)

    def add_text(self, piece: str) -> None:
        if piece:
            self.end_thought()
            self._write(piece)

    def add_thought(self, piece: str) -> None:
        """Add the next piece of a thought that the server sends apart."""
        if piece:
            self._write(piece if self._thinking else f"<think>{piece}")
            self._thinking = True

    def decline(self, piece: str) -> None:
        """Add the next piece of the model's refusal."""
        self.declined = True
        self.add_text(piece)

    def note(self, text: str) -> None:
        """Keep a sentence for the record, once."""
        if text not in self.notes:
            self.notes.append(text)

    def bend(self, name: str, *came: str) -> None:
        """Note that the server departed from its protocol, as the table of tolerances names it."""
        text = TOLERANCES[name].words.format(*came)
        self.bent.setdefault(name, text)
        self.note(text)

    def end_thought(self) -> None:
        if self._thinking:
            self._thinking = False
            self._write("</think>")

    def _write(self, piece: str) -> None:
        self.raw += piece
        self._pending += self.watch.feed(piece)

    def tell(self) -> None:
        """Let the listener hear what came since; apart from reading, so that its faults are not the server's."""
        piece, self._pending = self._pending, ""
        self.listener.hear(piece)

    def call(self, number: int) -> PartialCall:
        """Return the native call of that number, new if there was none."""
        self.end_thought()
        return self.calls.setdefault(number, PartialCall())

    def call_piece(self, number: int, call_id: str, name: str, arguments: object) -> None:
        """Add the next piece of a native call in a stream. Identifier and name tell calls apart that share a number."""
        self.end_thought()
        same = [key for key in self.calls if key == number or (isinstance(key, tuple) and key[0] == number)]
        call = self.calls[same[-1]] if same else self.call(number)
        piece = argument_piece(arguments, self)
        if name and call.name and _whole(call.arguments):
            repeated = name == call.name and (not piece or _same_json(piece, call.arguments))
            if repeated and call_id in ("", call.call_id or ""):
                return
            call = self._another(number, len(same))
        elif name and call.name and call_id and call.call_id and call_id != call.call_id:
            call = self._another(number, len(same))
        call.call_id = call.call_id or call_id or None
        if not call.name or name.startswith(call.name):
            if call.name not in ("", name):
                self.bend("split name")
            call.name = name or call.name
        elif name and not call.arguments:
            call.name += name
            self.bend("split name")
        call.arguments += piece

    def _another(self, number: int, before: int) -> PartialCall:
        self.bend("one number")
        return self.calls.setdefault((number, before), PartialCall())

    def check_ended(self) -> None:
        """Raise `OutageError` if the server did not say that the answer has ended."""
        if self.finish is None and self.watch.stopped is None:
            begun = self.raw or self.calls
            raise OutageError("broke off in the middle of its answer." if begun else _NO_ANSWER)

    def completion(self) -> Completion:
        """Return the whole answer. Raises `OutageError` if the server did not say that the answer has ended."""
        self.check_ended()
        self.tell()
        finish = self.finish or FinishReason.STOP_STRING
        text, finish = apply_stops(self.raw, self.stops, finish, swallowed=self._swallowed(finish))
        self.listener.hear(text[len(self.watch.text) :])
        calls, slips = self._complete_calls() if finish is not FinishReason.STOP_STRING else ((), "")
        if slips:
            self.listener.hear(slips)
        if self.declined:
            finish = FinishReason.DECLINED
        if finish is FinishReason.TOOL_CALL and not calls:
            finish = FinishReason.STOP
        ids = self.token_ids if len(text) >= len(self.raw) else []  # ids of text that was cut off match nothing
        return Completion(
            text=clean_text(text + slips),
            finish=finish,
            tool_calls=calls,
            hosted=self.hosted,
            token_ids=tuple(ids) or None,
            logprobs=tuple(self.logprobs) if ids and len(self.logprobs) == len(ids) else None,
            usage=self.usage,
            model=self.model,
            notes=tuple(self.notes),
        )

    def _swallowed(self, finish: FinishReason) -> str | None:
        if self.stop_named is None and self.infers_stop and finish is FinishReason.STOP:
            return unclosed(self.raw, self.stops)
        return self.stop_named

    def _complete_calls(self) -> tuple[tuple[ToolCall, ...], str]:
        complete: list[ToolCall] = []
        slips: list[str] = []
        for partial in self.calls.values():
            call = partial.complete(self)
            if call is None:
                slips.append(f"{partial.name}({partial.arguments})")
            else:
                complete.append(call)
        return tuple(complete), "\n".join(slips)


def _whole(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except ValueError:
        return False


def _same_json(one: str, other: str) -> bool:
    return one == other or (_whole(one) and json.loads(one) == json.loads(other))


def first_named(values: Iterable[object], stops: tuple[str, ...]) -> str | None:
    """Return the first of a server's words for why it stopped that is one of `stops`."""
    return next((value for value in values if isinstance(value, str) and value in stops), None)
