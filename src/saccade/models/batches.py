"""Requests gathered into batches of a provider's batch API, at half the price, with answers within a day.

All requests that come until a quiet moment go out as one batch: a round of turns of all episodes. What is known lies
in a folder: which batches were sent, with which requests, and every answer. A process that ends may be started again
days later: what was answered is read, what was sent is waited for, and only the rest is sent. A batch that was being
sent when the process ended is looked for among those that the provider lists.

    FOLDER/round-0001.json      {"batch": "batch_abc", "keys": [...], "ended": false, "mark": "...", "sent": 1.8e9}
    FOLDER/answers/KEY.json     {"body": {...}} or {"status": 400, "error": {...}}
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

from saccade.core.disk import write_atomic
from saccade.core.retry import OutageError
from saccade.errors import ModelLostError, ModelRefusedError

HALF: Final = 0.5
"""What a request costs in a batch of each provider, of its price only."""
_log = logging.getLogger(__name__)
_CLOCKS: Final = 900.0
"""Seconds by which the provider's clock and the making of a batch may differ from ours."""
Ask = Callable[[], Awaitable[Any]]
"""One request to the provider."""


class BatchApi(Protocol):
    """The batch API of one provider."""

    most_requests: int
    most_bytes: int
    """Of all requests of a batch together."""

    def line(self, key: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request as a batch holds it."""

    async def send(self, lines: Sequence[Mapping[str, Any]], mark: str) -> str:
        """Send a batch, with a mark where the API keeps one, and return its name. Raises `ModelError`."""

    async def find(self, mark: str, requests: int, sent: float) -> str | None:
        """Return the name of the batch with that mark; where no mark is kept, of one with as many requests that was
        made at the time `sent` (seconds since 1970). None if no such batch is listed. Raises `ModelError`.
        """

    async def ended(self, batch: str) -> bool:
        """Return whether nothing more will come of a batch. Raises `ModelError`, refused if it failed as a whole."""

    async def results(self, batch: str, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return, by its key, what each request that was answered gave: `{"body": ...}` or an error with a `status`."""


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """How long to wait, in seconds."""

    quiet: float = 20.0
    """Without a new request, before a batch is sent."""
    poll: float = 30.0
    """Between two questions after a batch."""


class Batches:
    """The batches of one model in one folder."""

    def __init__(
        self, folder: Path, api: BatchApi, times: BatchTimes, patiently: Callable[[Ask], Awaitable[Any]]
    ) -> None:
        """`patiently` asks the provider: with retries, and its failures as errors of ours."""
        self._patiently = patiently
        self._folder = folder
        self._api = api
        self._times = times
        self._lines: dict[str, dict[str, Any]] = {}
        """Requests that are not sent yet."""
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._news = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._rounds = {file: json.loads(file.read_text()) for file in sorted(folder.glob("round-*.json"))}
        self._unsure = [file for file, there in self._rounds.items() if not there["batch"] and not there["ended"]]
        """Batches that were being sent when the process ended."""
        self._looking = asyncio.Lock()

    async def answer(self, key: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return what came of a request, once it is there; asked again with the same key, it is not sent again.

        Raises:
            OutageError: the batch ended without an answer to it.
            ModelRefusedError: the batch was refused as a whole.
            ModelLostError: the provider could not be reached for long.
        """
        key = sha256(key.encode()).hexdigest()[:60]
        async with self._looking:
            while self._unsure:
                await self._look_for(self._unsure[0])
                del self._unsure[0]
        if (stored := self._stored(key)) is not None:
            return stored
        future = self._waiting.get(key)
        if future is None:
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
            if not any(key in there["keys"] for there in self._rounds.values() if not there["ended"]):
                self._lines[key] = self._api.line(key, fields)
            self._news.set()
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._run())
        return await asyncio.shield(future)

    async def close(self) -> None:
        """Stop waiting; what was sent is found again in the folder."""
        if self._work is not None:
            self._work.cancel()
            with suppress(asyncio.CancelledError):
                await self._work

    async def _look_for(self, file: Path) -> None:
        there = self._rounds[file]
        find = partial(self._api.find, there["mark"], len(there["keys"]), there["sent"])
        try:
            name = await self._patiently(find)
        except ModelRefusedError as error:
            _log.warning("%s does not list its batches: %s", file, error)
            name = None
        says = "it was found: %s" if name else "the provider lists no such batch, and its requests are sent again%s"
        _log.warning(f"%s: a batch was being sent when the process ended; {says}.", file, name or "")
        self._keep(file, {**there, "batch": name or "", "ended": name is None})

    async def _run(self) -> None:
        while self._waiting:
            try:
                await self._gathered()
                await self._send()
                await self._poll()
            except ModelRefusedError as error:
                self._fail(list(self._waiting), error)
            except ModelLostError as error:
                _log.warning("%s Asking after the batches again in %g s.", error, self._times.poll)
                await asyncio.sleep(self._times.poll)
            except Exception as error:  # else all who wait would do so for ever
                self._fail(list(self._waiting), error)

    async def _gathered(self) -> None:
        """Wait until no request has come for a while, or for the next time to ask after what was sent."""
        if not self._lines:
            await self._news_within(self._times.poll)
        while self._lines and self._news.is_set():
            self._news.clear()
            await self._news_within(self._times.quiet)
        self._news.clear()

    async def _news_within(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # Python 3.11's `wait_for` can swallow what cancels it
                await self._news.wait()

    async def _send(self) -> None:
        while self._lines:
            keys, size = list[str](), 0
            for key, line in self._lines.items():
                size += len(json.dumps(line))
                if keys and (size > self._api.most_bytes or len(keys) >= self._api.most_requests):
                    break
                keys.append(key)
            file = self._folder / f"round-{len(self._rounds) + 1:04}.json"
            there: dict[str, Any] = {"keys": keys, "ended": False, "mark": uuid.uuid4().hex, "sent": time.time()}
            self._keep(file, {**there, "batch": ""})
            try:
                lines = [self._lines[key] for key in keys]
                name = await self._patiently(partial(self._api.send, lines, there["mark"]))
            except Exception:  # but not where this is cancelled: what is being sent may arrive
                del self._rounds[file]
                file.unlink()
                raise
            self._keep(file, {**there, "batch": name})
            for key in keys:
                del self._lines[key]
            _log.warning(
                "Batch %s with %d requests was sent; answers come within a day. The command may be ended: the same "
                "command continues from there.",
                name,
                len(keys),
            )

    async def _poll(self) -> None:
        for file, there in list(self._rounds.items()):
            if there["ended"] or not await self._patiently(partial(self._api.ended, there["batch"])):
                continue
            came = await self._patiently(partial(self._api.results, there["batch"], there["keys"]))
            for key, result in came.items():
                write_atomic(self._file(key), json.dumps(result))
            self._keep(file, {**there, "ended": True})
            for key in there["keys"]:
                future = self._waiting.pop(key, None)
                if future is None or future.done():
                    continue
                stored = self._stored(key)
                if stored is None:
                    future.set_exception(OutageError(f"was asked in batch {there['batch']}, which ended without it."))
                else:
                    future.set_result(stored)

    def _fail(self, keys: Sequence[str], error: Exception) -> None:
        for key in keys:
            self._lines.pop(key, None)
            future = self._waiting.pop(key, None)
            if future is not None and not future.done():
                future.set_exception(error)
        for file, there in list(self._rounds.items()):
            if not there["ended"]:
                self._keep(file, {**there, "ended": True})

    def _keep(self, file: Path, there: dict[str, Any]) -> None:
        self._rounds[file] = there
        write_atomic(file, json.dumps(there))

    def _file(self, key: str) -> Path:
        return self._folder / "answers" / f"{key}.json"

    def _stored(self, key: str) -> dict[str, Any] | None:
        try:
            stored: dict[str, Any] = json.loads(self._file(key).read_text())
        except FileNotFoundError:
            return None
        return stored


# The three APIs.


def _error(error: Any, status: int) -> dict[str, Any]:
    return {"status": status, "error": error if isinstance(error, dict) else {"message": str(error)}}


class OpenAIBatches:
    """OpenAI's: a file of requests in, a file of answers out, for both of its protocols."""

    most_requests = 50_000
    most_bytes = 190_000_000

    def __init__(self, client: Any, model: str, path: str) -> None:
        self._client, self._model, self._path = client, model, path

    def line(self, key: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        body = {name: value for name, value in fields.items() if name not in ("extra_body", "extra_headers")}
        body = {"model": self._model, **body, **fields.get("extra_body", {})}
        return {"custom_id": key, "method": "POST", "url": self._path, "body": body}

    async def send(self, lines: Sequence[Mapping[str, Any]], mark: str) -> str:
        """Upload the file and make a batch of it."""
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        file = await self._client.files.create(file=("saccade.jsonl", data), purpose="batch")
        made = await self._client.batches.create(
            input_file_id=file.id, endpoint=self._path, completion_window="24h", metadata={"saccade": mark}
        )
        return str(made.id)

    async def find(self, mark: str, requests: int, sent: float) -> str | None:
        async for there in self._client.batches.list(limit=100):
            if (there.metadata or {}).get("saccade") == mark:
                return str(there.id)
        return None

    async def ended(self, batch: str) -> bool:
        there = await self._client.batches.retrieve(batch)
        if there.status == "failed":
            words = "; ".join(str(error.message) for error in (there.errors.data if there.errors else None) or ())
            raise ModelRefusedError(f"batch {batch} was refused as a whole: {words or 'no reason was given'}")
        return there.status in ("completed", "expired", "cancelled")

    async def results(self, batch: str, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Read the file of answers and that of errors; what expired is left out."""
        there = await self._client.batches.retrieve(batch)
        found: dict[str, dict[str, Any]] = {}
        for name in filter(None, (there.output_file_id, there.error_file_id)):
            content = await self._client.files.content(name)
            for line in content.content.decode("utf-8").split("\n"):
                item = json.loads(line) if line.strip() else {}
                response, error = item.get("response") or {}, item.get("error") or {}
                body, status = response.get("body"), response.get("status_code") or 500
                if not item or error.get("code") == "batch_expired":
                    continue
                if status < 400 and not error:
                    found[item["custom_id"]] = {"body": body}
                else:
                    inner = body.get("error", body) if isinstance(body, dict) else None
                    found[item["custom_id"]] = _error(error or inner or body, status)
        return found


class AnthropicBatches:
    """Anthropic's message batches."""

    most_requests = 100_000
    most_bytes = 240_000_000

    def __init__(self, client: Any) -> None:
        self._api = client.messages.batches

    def line(self, key: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        params = {name: value for name, value in fields.items() if name not in ("extra_body", "extra_headers")}
        return {"custom_id": key, "params": {**params, **fields.get("extra_body", {})}}

    async def send(self, lines: Sequence[Mapping[str, Any]], mark: str) -> str:
        """Make a batch; this API keeps no mark."""
        return str((await self._api.create(requests=list(lines))).id)

    async def find(self, mark: str, requests: int, sent: float) -> str | None:
        """Look for as many requests at that time; answers are told by their keys, so a wrong batch answers none."""
        async for there in self._api.list(limit=100):  # the newest first
            made = there.created_at.timestamp()
            if made < sent - _CLOCKS:
                break
            if made < sent + _CLOCKS and sum(there.request_counts.model_dump().values()) == requests:
                return str(there.id)
        return None

    async def ended(self, batch: str) -> bool:
        return bool((await self._api.retrieve(batch)).processing_status == "ended")

    async def results(self, batch: str, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Read the answers; what expired or was cancelled is left out."""
        found: dict[str, dict[str, Any]] = {}
        async for item in await self._api.results(batch):
            result = item.result.model_dump(mode="json", warnings=False)
            if result["type"] == "succeeded":
                found[item.custom_id] = {"body": result["message"]}
            elif result["type"] == "errored":
                inner = result["error"].get("error") or result["error"]
                found[item.custom_id] = _error(inner, 400 if "invalid" in str(inner.get("type")) else 500)
        return found


class GeminiBatches:
    """Gemini's, with the requests in the call itself."""

    most_requests = 10_000
    most_bytes = 14_000_000
    """The API takes 20 MB, and pictures grow by a third."""
    _BROKEN: Final = ("JOB_STATE_FAILED",)
    _ENDED: Final = (
        *("JOB_STATE_SUCCEEDED", "JOB_STATE_PARTIALLY_SUCCEEDED"),
        *("JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED"),
    )

    def __init__(self, client: Any, package: Any, model: str) -> None:
        self._api, self._types, self._model = client.aio.batches, package.types, model

    def line(self, key: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        config = {name: value for name, value in fields["config"].items() if name != "automatic_function_calling"}
        request = self._types.InlinedRequest(contents=fields["contents"], config=config, metadata={"key": key})
        plain: dict[str, Any] = request.model_dump(mode="json", exclude_none=True)
        return plain

    async def send(self, lines: Sequence[Mapping[str, Any]], mark: str) -> str:
        source = [self._types.InlinedRequest.model_validate(line) for line in lines]
        made = await self._api.create(model=self._model, src=source, config={"display_name": f"saccade-{mark}"})
        return str(made.name)

    async def find(self, mark: str, requests: int, sent: float) -> str | None:
        async for there in await self._api.list(config={"page_size": 100}):
            if there.display_name == f"saccade-{mark}":
                return str(there.name)
        return None

    async def ended(self, batch: str) -> bool:
        there = await self._api.get(name=batch)
        state = str(getattr(there.state, "value", there.state))
        if state in self._BROKEN:
            words = there.error.message if there.error else "no reason was given"
            raise ModelRefusedError(f"batch {batch} was refused as a whole: {words}")
        return state in self._ENDED

    async def results(self, batch: str, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Read the answers, which come in the order of the requests."""
        there = await self._api.get(name=batch)
        found: dict[str, dict[str, Any]] = {}
        for key, item in zip(keys, (there.dest and there.dest.inlined_responses) or (), strict=False):
            key = (item.metadata or {}).get("key", key)
            if item.response is not None:
                found[key] = {"body": item.response.model_dump(mode="json", exclude_none=True)}
            elif item.error is not None:
                status = {3: 400, 5: 404, 7: 403, 8: 429, 9: 400, 16: 401}.get(item.error.code or 0, 500)
                found[key] = _error({"message": item.error.message}, status)
        return found
