"""What models behind a provider's own client package share: name, key, connections, and how a request is asked.

Some models of a server refuse parameters that others know. One without which a request still asks for the same
(`DISPENSABLE`) is left out from the first refusal on; that is said once where it changes what is sampled.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from saccade.core.retry import OutageError, RetryPolicy, with_retries
from saccade.core.settings import merged
from saccade.errors import (
    ContextLimitError,
    MediaError,
    ModelDeniedError,
    ModelError,
    ModelRefusedError,
    SaccadeError,
    SettingsError,
)
from saccade.models.answer import Listener, PartialAnswer
from saccade.models.base import Completion, MediaKeeper, MediaReader, Request, Usage, check_stops
from saccade.models.batches import HALF, BatchApi, Batches, BatchTimes
from saccade.models.endpoint import Endpoint, Price
from saccade.models.exchanges import hooks, one_try
from saccade.models.failures import (
    COMMON,
    FilteredRequestError,
    OtherMannerError,
    PackageErrors,
    RefusedParameterError,
    SentError,
    converted,
    error_details,
    find_key,
    load_client,
)
from saccade.models.registry import Provider
from saccade.models.thinking import MANNERS, Manners, headers_of
from saccade.record.content import ImagePart, clean_text
from saccade.record.execution import Execution, ExecutionFile, ExecutionPicture, HostedCall, PictureSource, Status
from saccade.record.trajectory import FinishReason, Sampling

DISPENSABLE: Final = frozenset({"stop", "parallel_tool_calls", "temperature", "top_p"})
"""Parameters that some models of a server refuse, and that are left out then."""
_SAMPLING: Final = frozenset({"temperature", "top_p"})
_CONNECT_SECONDS = 10.0
_NO_LIMIT: Final = 1e9
"""Seconds; asyncio takes no infinite delay."""
SAMPLE: ContextVar[str] = ContextVar("saccade_sample", default="")
"""Which sample of a run asks, to tell the requests of a batch apart."""
_log = logging.getLogger(__name__)
T = TypeVar("T")


class HostedModel(ABC):
    """The base of such models; a subclass says what is sent (`_fields`) and how an answer is read (`_read`)."""

    def __init__(
        self, provider: Provider, endpoint: Endpoint, package: str, *, client: str, api_key: str | None
    ) -> None:
        """Talk through the class `client` of `package`, made as those of OpenAI's and Anthropic's packages are; a
        subclass for another package says so in `_connected`, `failure` and `close`.

        Raises `UnavailableError`: it is not installed; `ModelRefusedError`: a key is needed, and there is none.
        """
        self.name = f"{provider.name}:{endpoint.model}"
        self.retry: RetryPolicy = endpoint.retry
        """How often a request is tried, and for how long."""
        self._provider = provider
        self._endpoint = endpoint
        self._package = load_client(package)
        of_file = None if api_key else endpoint.key
        self._key = of_file or find_key(provider.name, api_key, usual=provider.key_names, needed=provider.needs_key)
        self._client: Any = self._connected(client)
        self._refused: set[str] = set()
        self.batches: Batches | None = None
        """Where requests are gathered, in place of being asked at once."""
        self._manners = Manners()
        """How requests are put, as far as refusals have taught."""
        self._said: set[str] = set()
        """Departures from the protocol that the log has said."""

    def _connected(self, client: str) -> Any:
        return getattr(self._package, client)(
            api_key=self._key.reveal() or "none",
            base_url=self._endpoint.base_url,
            max_retries=0,
            http_client=self._package.DefaultAsyncHttpxClient(event_hooks=hooks()),
            timeout=self._package.Timeout(None, connect=_CONNECT_SECONDS),  # the policy bounds the whole try
        )

    def _thinking(self, sampling: Sampling) -> dict[str, Any]:
        """Return the fields that tell the model how much to think. Raises `ModelRefusedError`: it cannot be told so."""
        tell = self._provider.reasoning
        if sampling.reasoning is None:
            return {}
        if tell is None:
            raise ModelRefusedError(f"{self._provider.name} cannot be told how much to think")
        address = self._endpoint.base_url
        try:
            fields: Any = tell(self._endpoint.model + (f"@{address}" if address else ""), sampling)
        except SettingsError as error:
            raise ModelRefusedError(str(error)) from error
        return dict(fields)

    def _own(self, sampling: Sampling, fields: dict[str, Any]) -> dict[str, Any]:
        """`fields` with what tells the model how much to think, and with the fields and headers of the user's own."""
        body, headers = sampling.extra_body or {}, headers_of(sampling)
        if sampling.reasoning is not None or body:
            fields = merged(merged(fields, self._thinking(sampling)), {"extra_body": body} if body else {})
        return {**fields, "extra_headers": headers} if headers else fields

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def has_price(self) -> bool:
        """Whether the table of prices knows the model."""
        return self.price is not None

    @property
    def price(self) -> Price | None:
        """What its tokens cost; None if the table of prices does not know the model."""
        return self._endpoint.prices.price(self.name.partition(":")[0], self._endpoint.model)

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the model's next message; an empty piece to `on_text` says that a broken answer begins again.

        Raises `ModelRefusedError`: no retry can help, or the service blocks the request; `ModelLostError`: an outage
        outlasted the retries; `MediaError`: a picture or a video of the messages cannot be read.
        """
        check_stops(request.stop)
        listener = Listener(on_text)
        while True:
            manners = self._manners
            asked = manners.arranged(request)
            fields = await asyncio.to_thread(self._fields, asked, media, frozenset(self._refused))
            try:
                return await self._answer(asked, fields, media, listener)
            except FilteredRequestError as refusal:
                return Completion("", FinishReason.FILTERED, model=self._endpoint.model, notes=(str(refusal),))
            except ModelRefusedError as refusal:
                if isinstance(refusal, OtherMannerError) and manners is not self._manners:
                    continue  # another request was refused meanwhile, and has taught the same
                request = self._after(refusal, request, fields)

    @abstractmethod
    def _fields(self, request: Request, media: MediaReader, without: Collection[str]) -> dict[str, Any]:
        """Return what is sent, without the parameters `without`.

        May take long (pictures are encoded), so runs in a thread.
        """

    def batch_api(self) -> BatchApi | None:
        """Return the provider's batch API; None if it has none."""
        return None

    def gather(self, folder: Path, times: BatchTimes) -> bool:
        """Send requests from now on in batches, which are kept in `folder`; return whether there is a batch API."""
        api = self.batch_api()
        if api is not None:
            (folder / "answers").mkdir(parents=True, exist_ok=True)
            self.batches = Batches(folder, api, times, self._patiently)
        return api is not None

    def _read_body(self, body: Any, answer: PartialAnswer) -> None:
        """Read an answer of a batch into `answer`. Raises as `_read`."""
        raise NotImplementedError

    @abstractmethod
    async def _read(self, fields: Mapping[str, Any], answer: PartialAnswer) -> None:
        """Send `fields` once and read what comes into `answer`."""

    def _after(self, refusal: ModelRefusedError, request: Request, fields: Mapping[str, Any]) -> Request:
        """Return what to ask after the server refused `fields`; raises `refusal` if nothing else asks for the same."""
        if isinstance(refusal, OtherMannerError):
            self._ask_otherwise(refusal, request, fields)
            return request
        if not isinstance(refusal, RefusedParameterError):
            if isinstance(refusal, ModelDeniedError | ContextLimitError) or not (
                other := self._manners.instead(fields)
            ):
                raise refusal
            self._learn(other, str(refusal))
            return request
        self._leave_out(refusal, (*fields, *fields.get("extra_body", ())))
        return request

    def _ask_otherwise(self, refusal: OtherMannerError, request: Request, fields: Mapping[str, Any]) -> None:
        """Put requests another way from now on; raises `refusal` if there is none."""
        manners = self._manners.after(refusal.kind, refusal.words, request, fields) or self._manners.instead(fields)
        if manners is None:
            raise refusal
        self._learn(manners, refusal.words)

    def _learn(self, manners: Manners, words: str) -> None:
        for way in manners.ways:
            if way not in self._manners.ways:
                _log.warning("%s refused a request: %s. %s", self.name, words, MANNERS[way].words)
        self._manners = manners

    async def _answer(
        self, request: Request, fields: dict[str, Any], media: MediaReader, listener: Listener
    ) -> Completion:
        """Return the answer to `fields`, tried as often as `retry` says.

        A subclass may ask in several requests instead.
        """
        if self.batches is not None:
            return await self._from_batch(self.batches, request, fields, listener)

        async def ask() -> Completion:
            listener.begin()
            answer = PartialAnswer(request.stop, listener)
            await self._read(fields, answer)
            self._count(answer)
            return answer.completion()

        return await self._patiently(ask)

    async def _from_batch(
        self, batches: Batches, request: Request, fields: dict[str, Any], listener: Listener
    ) -> Completion:
        """Return the answer, when its batch is over; what failed goes into later ones."""
        tried = 0

        async def ask() -> Completion:
            nonlocal tried
            tried += 1
            listener.begin()
            answer = PartialAnswer(request.stop, listener)
            # Without the sample, samples that ask the same would share an answer.
            key = json.dumps([SAMPLE.get(), self.name, tried, fields], sort_keys=True, default=repr)
            came = await batches.answer(key, fields)
            if "error" in came:
                raise SentError(came["status"], error_details(came["error"], "no reason was given"))
            self._read_body(came["body"], answer)
            self._count(answer)
            return answer.completion()

        def once() -> Awaitable[Completion]:
            return one_try(
                lambda: converted(ask, self.failure, key=self._key, who=self.name, seconds=_NO_LIMIT), self._key.hide
            )

        patient = self.retry.model_copy(update={"total_seconds": 0.0})
        return await with_retries(once, patient, self._endpoint.clock)

    def _count(self, answer: PartialAnswer) -> None:
        """Put what is known of the answer's price and model into it, when all of it is there."""
        if answer.finish is None:  # the count so far is only that of the beginning
            answer.usage = replace(answer.usage, sampled_tokens=None)
        answer.usage = self._priced(answer.usage, answer.cache_written)
        answer.model = answer.model or self._endpoint.model
        for way in self._manners.ways:
            answer.note(MANNERS[way].words)
        for name, words in answer.bent.items():
            if name not in self._said:
                self._said.add(name)
                _log.warning("%s departs from its protocol: %s", self.name, words)

    async def close(self) -> None:
        """Give back the connections."""
        if self.batches is not None:
            await self.batches.close()
        await self._client.close()

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return what `ask`, one try, gives; outages are tried again, and all failures are errors of ours."""
        return await with_retries(lambda: self._once(ask), self.retry, self._endpoint.clock)

    async def _patiently_in_steps(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the same for a try of several requests, of which each goes through `_once`."""
        return await with_retries(ask, self.retry, self._endpoint.clock)

    async def _once(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return what one request gives; it is heard, and its failures are errors of ours."""
        return await one_try(
            lambda: converted(ask, self.failure, key=self._key, who=self.name, seconds=self.retry.seconds),
            self._key.hide,
        )

    def failure(self, error: Exception) -> SaccadeError | None:
        """Return our error for a failure of connection or server that the client package raised; None for others."""
        address = str(self._client.base_url)
        return PackageErrors(self._package, self._key, self.name, address, self._provider.errors or COMMON)(error)

    def _priced(self, usage: Usage, cache_written: int = 0) -> Usage:
        """Return `usage` with its dollars, as far as they are known."""
        priced = self._endpoint.prices.priced(usage, self._provider.prices, self._endpoint.model, cache_written)
        if self.batches is None or priced.dollars is None:
            return priced
        return replace(priced, dollars=priced.dollars * HALF)

    def _leave_out(self, refusal: RefusedParameterError, sent: Collection[str]) -> None:
        """Ask from now on without the refused parameter; raises `refusal` if it was not `sent`, or is needed."""
        name = refusal.parameter
        if name not in DISPENSABLE or name not in sent:
            raise refusal
        if name in _SAMPLING and name not in self._refused:
            _log.warning("%s takes no %s; it is asked without, so its own default holds.", self.name, name)
        self._refused.add(name)


async def read_stream(
    pieces: AsyncIterable[Any],
    read: Callable[[Any], None],
    answer: PartialAnswer,
    *,
    close: Callable[[], Awaitable[None]],
    cuts: bool,
) -> None:
    """Read a stream into `answer`, telling its listener of every piece, and end it.

    Args:
        pieces: the stream, as the client package gives it.
        read: reads one piece into `answer`.
        answer: what has come in so far.
        close: ends the stream.
        cuts: the server does not know a stop string, so the stream ends here at the first one; what follows is paid
            for and thrown away.
    """
    try:
        async for piece in pieces:
            read(piece)
            answer.tell()
            if cuts and answer.watch.stopped is not None:
                break
    finally:
        await close()


MOST_FILES: Final = 32
"""Files that are fetched of one answer."""
MOST_BYTES: Final = 20 * 1024 * 1024
"""Of one file that is fetched."""
PICTURE_ENDINGS: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff")
UNANSWERED: Final = "The provider's sandbox did not say what came of this call."


@dataclass(slots=True)
class OpenPicture:
    """A picture that came back and is not stored yet."""

    data: bytes
    source: PictureSource
    path: str | None = None


@dataclass(slots=True)
class OpenCall:
    """A call whose outcome may still be coming."""

    tool: str
    at: int
    code: str = ""
    language: str = "python"
    call_id: str | None = None
    container: str = ""
    status: Status | None = None
    """None until the provider says how it ended."""
    stdout: str = ""
    stderr: str = ""
    reason: str = ""
    """Why it did not end well."""
    pictures: list[OpenPicture] = field(default_factory=list)
    files: list[ExecutionFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def need_keeper(media: MediaReader, who: str) -> MediaKeeper:
    """Return `media`, into which pictures can be put. Raises `ModelRefusedError` if they cannot."""
    if not isinstance(media, MediaKeeper):
        raise ModelRefusedError(
            f"{who} is asked to run code in its own sandbox, and there is no store for the pictures that come back. "
            "Give a MediaStore as the media."
        )
    return media


def refuse_hosted(request: Request, who: str) -> None:
    """Raise `ModelRefusedError` if the request is for a provider's sandbox, which `who` has not."""
    if request.hosted:
        raise ModelRefusedError(
            f"{who} has no sandbox of its own that runs code. Use responses, anthropic or gemini, or a dialect whose "
            "code runs here."
        )


def kept(calls: Sequence[OpenCall], media: MediaKeeper) -> tuple[HostedCall, ...]:
    """Return the calls as they are recorded, their pictures put into `media`; a note names one that cannot be read."""
    return tuple(_kept(call, media) for call in calls)


def _kept(call: OpenCall, media: MediaKeeper) -> HostedCall:
    notes = list(call.notes)
    pictures: list[ExecutionPicture] = []
    for number, item in enumerate(call.pictures):
        try:
            image: ImagePart = media.put_bytes(item.data)
        except MediaError as error:
            notes.append(f"Picture {item.path or number} came back and cannot be read: {error}")
        else:
            pictures.append(ExecutionPicture(image=image, source=item.source, path=item.path))
    status = Status.LOST if call.status is None else call.status
    reason = call.reason or (UNANSWERED if call.status is None else "")
    return HostedCall(
        tool=clean_text(call.tool)[:200] or "unknown",
        language=call.language,
        code=clean_text(call.code),
        at=call.at,
        call_id=None if call.call_id is None else clean_text(call.call_id),
        container=clean_text(call.container),
        execution=Execution(
            status=status,
            stdout=clean_text(call.stdout),
            stderr=clean_text(call.stderr),
            traceback=clean_text(reason) or None,
            pictures=tuple(pictures),
            files=tuple(call.files),
            notes=tuple(map(clean_text, notes)),
        ),
    )


def add_file(call: OpenCall, name: str, data: bytes) -> None:
    """Add a file that the call left: a picture by its ending, or else only its name and size."""
    if name.lower().endswith(PICTURE_ENDINGS):
        call.pictures.append(OpenPicture(data, "file", clean_text(name)))
    else:
        call.files.append(ExecutionFile(path=clean_text(name), size=len(data)))


def add_url(call: OpenCall, url: str) -> None:
    """Add a picture by a `data:` URL; any other address is noted and not fetched. Raises `OutageError` if its base64 is
    none.
    """
    head, comma, data = url.partition(",")
    if not (url.startswith("data:image/") and comma and head.endswith(";base64")):
        call.notes.append(f"A picture came back as an address, which is not fetched: {url[:200]}")
        return
    call.pictures.append(OpenPicture(decoded(data), "display"))


def decoded(text: str) -> bytes:
    """Return the bytes of base64. Raises `OutageError` for what is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise OutageError("sent a picture of its sandbox that is no base64.") from error


def as_json(data: Mapping[str, Any]) -> str:
    """Return arguments of a call as readable text."""
    return json.dumps(data, ensure_ascii=False, indent=2, default=str)


# Files of the provider's sandbox: upload the question's pictures, fetch what the code saved.


_SUFFIXES: Final = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
_CLEANUP_SECONDS: Final = 15.0

Patiently = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Makes a request with the retries of its model."""


@dataclass(frozen=True, slots=True)
class SandboxFile:
    """A file to lay into the sandbox."""

    name: str
    data: bytes
    mime: str

    @property
    def upload(self) -> tuple[str, bytes, str]:
        return self.name, self.data, self.mime


@dataclass(frozen=True, slots=True)
class LeftFile:
    """A file that the code left in the sandbox, and how it is read."""

    name: str
    size: int
    """Bytes, as the provider says."""
    read: Callable[[], Awaitable[bytes]]
    call: OpenCall
    """The call that it is shown with."""


def question_files(request: Request, media: MediaReader) -> tuple[SandboxFile, ...]:
    """Return the distinct pictures of the messages as they are stored, `image_0.png` and so on, in their order.

    Raises `MissingMediaError`: `media` lacks one.
    """
    found: dict[str, ImagePart] = {}
    for message in request.messages:
        found |= {part.sha256: part for part in message.media if isinstance(part, ImagePart)}
    return tuple(
        SandboxFile(f"image_{number}{_SUFFIXES.get(part.mime, '.img')}", media.get_bytes(part.sha256), part.mime)
        for number, part in enumerate(found.values())
    )


async def fetch(left: Sequence[LeftFile], patiently: Patiently) -> None:
    """Read the pictures among the files into their calls; the others are named. What cannot be read is noted."""
    for number, file in enumerate(left):
        if number >= MOST_FILES:
            file.call.notes.append(f"{len(left) - number} more files were left in the sandbox and not fetched.")
            return
        is_picture = file.name.lower().endswith(PICTURE_ENDINGS)
        if is_picture and file.size <= MOST_BYTES:
            try:
                data = await patiently(file.read)
            except ModelError as error:
                file.call.notes.append(f"The file {clean_text(file.name)} could not be fetched: {error}")
                continue
            if data not in [picture.data for picture in file.call.pictures]:
                add_file(file.call, file.name, data)
            continue
        if is_picture:
            file.call.notes.append(f"The picture {clean_text(file.name)} is too large to be fetched.")
        file.call.files.append(ExecutionFile(path=clean_text(file.name), size=file.size))


async def tidy(who: str, what: str, undo: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """Do all of `undo`; one that fails is a warning, for the provider deletes `what` later by itself."""
    for one in undo:
        try:
            async with asyncio.timeout(_CLEANUP_SECONDS):
                await one()
        except Exception as error:  # of the client package, of the connection, or the time
            _log.warning("%s: %s could not be deleted (%s); it expires by itself.", who, what, type(error).__name__)
