"""Keep the requests of a run as they went over the wire, and what came back, retries and errors included.

`requests/` of the run folder holds a file for each sample, a line for each try (`--set keep_requests=true`). A message
that an earlier line has is a number there, since every turn sends the whole conversation again; a picture is in the
media store, and the body has `media:SHA256` in its place. `read_requests` puts the messages back, and `with_media` the
pictures: the JSON that was sent, except for white space. No header is kept.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pydantic import JsonValue, NonNegativeFloat, NonNegativeInt, ValidationError

from saccade.errors import RecordError
from saccade.media.store import MediaStore
from saccade.models.exchanges import Exchange
from saccade.record.codec import append_line, recover_lines
from saccade.record.content import Record, Text, clean_text

FOLDER = "requests"
_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,")
_SHORT = 256
"""Characters below which a text is no picture."""


class KeptExchange(Record):
    """One try, as a line of the file."""

    id: Text
    """Of the sample."""
    number: NonNegativeInt
    """Of the try among those of the sample, from 0."""
    path: Text
    status: NonNegativeInt | None = None
    seconds: NonNegativeFloat = 0.0
    error: Text = ""
    request: JsonValue = None
    """The body; its `messages` are numbers of messages of this file."""
    messages: tuple[JsonValue, ...] = ()
    """Those that no earlier line of the file has."""
    response: Text = ""
    """The body as text: JSON, or the events of a stream."""


@dataclass(frozen=True, slots=True)
class RequestTry:
    """One try, whole."""

    number: int
    path: str
    status: int | None
    seconds: float
    error: str
    request: JsonValue
    """As it was sent, with `media:SHA256` in place of pictures."""
    response: str


def keeper(run: Path, sample: str, store: MediaStore) -> Callable[[Exchange], None]:
    """Return a function that keeps the exchanges of a sample in the folder `run`, after those that are there."""
    file = requests_file(run, sample)
    if file.is_file():
        recover_lines(file)
    known: dict[str, int] = {}
    count = 0
    for line in _lines(file):
        count = line.number + 1
        for message in line.messages:
            known.setdefault(_key(message), len(known))

    def keep(exchange: Exchange) -> None:
        nonlocal count
        request, fresh = _folded(_stored(_body(exchange.sent), store), known)
        line = KeptExchange(
            id=clean_text(sample),
            number=count,
            path=clean_text(exchange.path),
            status=exchange.status,
            seconds=exchange.seconds,
            error=clean_text(exchange.error),
            request=request,
            messages=tuple(fresh),
            response=_response(exchange),
        )
        count += 1
        file.parent.mkdir(parents=True, exist_ok=True)
        append_line(file, line)

    return keep


def read_requests(run: Path, sample: str) -> list[RequestTry]:
    """Return the tries of a sample in their order; none if they were not kept. Raises `RecordError`."""
    messages: list[JsonValue] = []
    requests = []
    file = requests_file(run, sample)
    for line in _lines(file):
        messages += line.messages
        request = line.request
        if isinstance(request, dict) and isinstance(numbers := request.get("messages"), list):
            named = [messages[one] for one in numbers if isinstance(one, int) and 0 <= one < len(messages)]
            if len(named) < len(numbers):
                raise RecordError(f"{file} names messages that it does not hold; delete the file.")
            request = {**request, "messages": named}
        requests.append(
            RequestTry(line.number, line.path, line.status, line.seconds, line.error, request, line.response)
        )
    return requests


def with_media(body: JsonValue, store: MediaStore) -> JsonValue:
    """Return a body with its pictures in their places again. Raises `MissingMediaError`."""

    def back(text: str) -> str:
        before, mark, name = text.rpartition("media:")
        return before + base64.b64encode(store.get_bytes(name)).decode("ascii") if mark and len(name) == 64 else text

    return _mapped(body, back)


def requests_file(run: Path, sample: str) -> Path:
    """Return where the requests of a sample are."""
    return run / FOLDER / f"{sha256(sample.encode()).hexdigest()[:24]}.jsonl"


def _lines(file: Path) -> Iterator[KeptExchange]:
    if not file.is_file():
        return
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return  # torn by a kill: that try was not over
            try:
                yield KeptExchange.model_validate_json(line)
            except ValidationError as error:
                raise RecordError(f"{file}, line {number} is no kept request; delete the file: {error}") from error


def _body(sent: bytes) -> JsonValue:
    try:
        body: JsonValue = json.loads(sent)
    except ValueError:
        return clean_text(sent.decode("utf-8", "replace"))
    return body


def _folded(body: JsonValue, known: dict[str, int]) -> tuple[JsonValue, list[JsonValue]]:
    """Return the body with numbers for its messages, and those that are new; `known` grows by these."""
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        return body, []
    numbers: list[JsonValue] = []
    fresh = []
    listed = body["messages"]
    assert isinstance(listed, list)
    for message in listed:
        key = _key(message)
        if key not in known:
            known[key] = len(known)
            fresh.append(message)
        numbers.append(known[key])
    return {**body, "messages": numbers}, fresh


def _stored(body: JsonValue, store: MediaStore) -> JsonValue:
    def away(text: str) -> str:
        if len(text) < _SHORT:
            return text
        match = _URL.match(text)
        start = match.end() if match else 0
        try:
            data = base64.b64decode(text[start:], validate=True)
        except (binascii.Error, ValueError):
            return text
        if base64.b64encode(data).decode("ascii") != text[start:]:
            return text  # could not be put back as it was
        return f"{text[:start]}media:{store.put_blob(data)}"

    return _mapped(body, away)


def _mapped(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {name: _mapped(item, change) for name, item in value.items()}
    return value


def _response(exchange: Exchange) -> str:
    if exchange.encoding:
        return f"({len(exchange.received)} bytes, compressed with {exchange.encoding})"
    return clean_text(bytes(exchange.received).decode("utf-8", "replace"))


def _key(message: JsonValue) -> str:
    return json.dumps(message, sort_keys=True, ensure_ascii=False)
