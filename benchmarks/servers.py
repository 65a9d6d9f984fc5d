"""Programs that answer after a set time in place of a model, each in a process of its own.

`python -m benchmarks.servers fixed SECONDS TEXTS` speaks the OpenAI protocol: TEXTS are the texts of an episode as a
JSON list; a request with n messages of the assistant gets text n. `python -m benchmarks.servers timed ANSWERS` is a
vLLM server without a model: ANSWERS is `TimedAnswers` as JSON; tokens go in and out. A turn's time is drawn from a
log-normal distribution by the seed of its request, so the same episodes take the same times in every run. Each token's
log-probability is minus those seconds: a record then tells what the engine took. Pictures are received and thrown away.
`GET /received` gives what was received since the last such question.

The first line of the output is the port. Neither knows more of HTTP than its client needs.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


async def serve_fixed(seconds: float, texts: Sequence[str]) -> None:
    """Answer on a free port of this machine until the process is ended."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
                asked = json.loads(await reader.readexactly(length))
                await asyncio.sleep(seconds)
                said = sum(message["role"] == "assistant" for message in asked["messages"])
                writer.write(_fixed_response(texts[said]))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def _fixed_response(text: str) -> bytes:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    body = json.dumps({"id": "f", "object": "chat.completion", "created": 0, "model": "fixed", "choices": [choice]})
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body.encode())}\r\n\r\n"
    return (head + body).encode()


GENERATE = "/inference/v1/generate"
RECEIVED = "/received"
_PIECE = 1 << 20
_END_OF_HEAD = b'"return_token_ids"'
"""Follows what is read of a request; the pictures come after it."""


@dataclass(frozen=True, slots=True)
class TimedAnswers:
    """What the server says, and when."""

    look: tuple[int, ...]
    """Ids of a turn that looks, and gets a picture back."""
    answer: tuple[int, ...]
    """Ids of an episode's last turn."""
    looks: int
    """Turns that look before the answer; a request with so many pictures more than one is answered with that."""
    placeholder: int
    """Id that stands for a picture."""
    seconds: float
    """Mean of a turn."""
    sigma: float
    """Standard deviation of the logarithm of the seconds."""

    def drawn(self, seed: int) -> float:
        """Return the seconds of the turn with that seed."""
        return random.Random(seed).lognormvariate(math.log(self.seconds) - self.sigma**2 / 2, self.sigma)

    def as_json(self) -> str:
        """Return what the server reads."""
        return json.dumps(asdict(self))


class TimedEngine:
    """Answers for as many connections as there are."""

    def __init__(self, answers: TimedAnswers) -> None:
        self._answers = answers
        self._turns = self._bytes = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, until its client goes."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                path = head.split(" ", 2)[1]
                size = int((head.lower().partition("content-length:")[2].partition("\r\n")[0]) or 0)
                writer.write(_timed_response(await self._reply(path, reader, size)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()

    async def _reply(self, path: str, reader: asyncio.StreamReader, size: int) -> dict[str, Any]:
        if path == GENERATE:
            return await self._sampled(reader, size)
        await _thrown_away(reader, size)
        if path == RECEIVED:
            received = {"turns": self._turns, "bytes": self._bytes}
            self._turns = self._bytes = 0
            return received
        return {"data": [{"id": "timed", "owned_by": "vllm"}]}

    async def _sampled(self, reader: asyncio.StreamReader, size: int) -> dict[str, Any]:
        head = await reader.readuntil(_END_OF_HEAD)
        await _thrown_away(reader, size - len(head))
        asked = json.loads(head.removesuffix(_END_OF_HEAD).rstrip(b", \n") + b"}")
        sampling = asked["sampling_params"]
        if sampling["logprobs"]:  # the client asks whether bias and temperature count
            first, second = sorted(sampling["logit_bias"].items(), key=lambda item: item[1], reverse=True)
            behind = (second[1] - first[1]) / sampling["temperature"]
            return _timed_answer([int(first[0])], 0.0, [(int(first[0]), 0.0), (int(second[0]), behind)])
        self._turns += 1
        self._bytes += size
        looked = asked["token_ids"].count(self._answers.placeholder) - 1
        seconds = self._answers.drawn(sampling["seed"])
        await asyncio.sleep(seconds)
        ids = self._answers.look if looked < self._answers.looks else self._answers.answer
        return _timed_answer(list(ids), -seconds, [])


def _timed_answer(ids: list[int], logprob: float, ranked: list[tuple[int, float]]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"token_id": token, "logprob": logprob} for token in ids]
    content[0]["top_logprobs"] = [{"token_id": token, "logprob": value} for token, value in ranked]
    return {"choices": [{"token_ids": ids, "finish_reason": "stop", "logprobs": {"content": content}}]}


async def _thrown_away(reader: asyncio.StreamReader, size: int) -> None:
    while size:
        piece = await reader.read(min(size, _PIECE))
        if not piece:
            raise asyncio.IncompleteReadError(b"", size)
        size -= len(piece)


def _timed_response(answer: dict[str, Any]) -> bytes:
    body = json.dumps(answer).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


async def serve_timed(answers: TimedAnswers) -> None:
    """Answer on a free port of this machine until the process is ended."""
    server = await asyncio.start_server(TimedEngine(answers).talk, "127.0.0.1", 0, limit=_PIECE, backlog=4096)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    kind, *given = sys.argv[1:]
    if kind == "fixed":
        asyncio.run(serve_fixed(float(given[0]), json.loads(given[1])))
    else:
        asyncio.run(serve_timed(TimedAnswers(**json.loads(given[0]))))
