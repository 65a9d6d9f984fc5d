"""What goes to the server of an engine, and what its answers mean: pictures, refusals, outages, a biased token."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from saccade.core.retry import Clock, RetryPolicy
from saccade.errors import ModelLostError, ModelRefusedError, SettingsError
from saccade.models.pictures import EncodedPicture
from saccade.record.content import ImagePart
from saccade.training.rl.engines import server_http
from saccade.training.rl.engines.server_http import Connection, PictureFile, PictureFiles, engine_address, streamed_body
from saccade.training.rl.engines.wire import SampleOutput, _fault


def connection(*answers: httpx.Response, tries: int = 1, waits: list[float] | None = None) -> Connection:
    """To a server that gives these answers, one after the other."""
    left = list(answers)

    async def sleep(seconds: float) -> None:
        (waits if waits is not None else []).append(seconds)

    way = httpx.MockTransport(lambda request: left.pop(0))
    return Connection("http://engine:1/v1/", retry=RetryPolicy(tries=tries), clock=Clock(sleep=sleep), transport=way)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"json": {"error": {"message": "no such model.", "code": 404}}}, "no such model"),
        ({"json": {"error": "no model"}}, "no model"),
        ({"json": {"message": " no model "}}, "no model"),
        ({"json": {"detail": [{"loc": ["body"]}]}}, '[{"loc": ["body"]}]'),
        ({"json": {"error": {}, "message": "more"}}, '{"error": {}, "message": "more"}'),
        ({"json": {"code": 7}}, '{"code": 7}'),
        ({"json": ["a", 1]}, '["a", 1]'),
        ({"text": "<html>no.</html>"}, "<html>no.</html>"),
        ({"text": "x" * 401}, "x" * 400),
        ({"text": ""}, "no reason given"),
    ],
)
async def test_a_refusal_is_in_the_servers_own_words(answer: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelRefusedError) as caught:
        await connection(httpx.Response(404, **answer)).get("/a")
    assert str(caught.value) == f"http://engine:1/a refused (404): {words}."


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 599])
async def test_an_outage_is_waited_out_as_long_as_the_server_asks(status: int) -> None:
    waits: list[float] = []
    busy = httpx.Response(status, text="busy", headers={"retry-after": "7"})
    assert await connection(busy, httpx.Response(200, json={"a": 1}), tries=2, waits=waits).post("/a", {}) == {"a": 1}
    assert waits == [7.0]
    with pytest.raises(ModelLostError, match=rf"http://engine:1/a failed \({status}\): busy\. Tried 1 time;"):
        await connection(busy).get("/a")


@pytest.mark.parametrize("status", [301, 400, 404, 409, 424, 426, 430, 499])
async def test_what_no_retry_can_help_is_refused_at_once(status: int) -> None:
    with pytest.raises(ModelRefusedError, match=f"refused .{status}.: no reason given"):
        await connection(httpx.Response(status), tries=2).get("/a")


async def test_an_empty_answer_is_none_and_one_that_is_no_json_an_outage() -> None:
    assert await connection(httpx.Response(204)).post("/a") is None
    with pytest.raises(ModelLostError, match="http://engine:1/a sent an answer that is not JSON"):
        await connection(httpx.Response(200, text="<html>")).get("/a")


def test_the_address_of_an_engine_needs_no_v1_and_takes_no_key() -> None:
    assert engine_address("https://engine:8000/v1") == "https://engine:8000"
    with pytest.raises(SettingsError, match=r"the engine's address 'engine' must .* SACCADE_ENGINE_API_KEY"):
        engine_address("http://me:key@engine:1")


def output(ids: tuple[int, ...] = (7,), logprob: float = 0.0, ranked: tuple[float, ...] = (0.0, -50.0)) -> SampleOutput:
    return SampleOutput(ids, (logprob,), stopped=False, count=None, ranked=ranked)


@pytest.mark.parametrize(
    ("answered", "fault"),
    [
        (output(), ""),
        (output(ids=(8,)), "does not heed logit_bias"),
        (output(logprob=-0.9e-3), ""),
        (output(logprob=-1.1e-3), "the model's own distribution"),
        # A temperature of 2 halves the 100 between the two biases; the model itself may prefer one by 36.
        (output(ranked=(0.0, -32.1)), ""),
        (output(ranked=(0.0, -31.9)), "leave the temperature out"),
        (output(ranked=(-67.9, 0.0)), ""),
        (output(ranked=(0.0, -68.1)), "leave the temperature out"),
        (output(ranked=(0.0, -100.0)), "leave the temperature out"),
        (output(ranked=(0.0,)), "leave the temperature out"),
        (output(ranked=(0.0, -1.0, -50.0)), "leave the temperature out"),
    ],
)
def test_what_a_biased_token_tells(answered: SampleOutput, fault: str) -> None:
    assert (fault in _fault(answered, 7)) if fault else not _fault(answered, 7)


def part(number: int) -> ImagePart:
    return ImagePart(sha256=f"{number:064x}", width=1, height=1, mode="RGB", mime="image/png")


async def first(files: PictureFiles, number: int) -> PictureFile:
    async with files.files_of([part(number)]) as (file,):
        return file


class Encoder:
    def __init__(self) -> None:
        self.calls = 0
        self.broken = False

    def __call__(self, wanted: ImagePart) -> EncodedPicture:
        self.calls += 1
        if self.broken:
            raise OSError(errno.EIO, "no")
        return EncodedPicture("image/png", wanted.sha256.encode() * 3)


async def test_each_is_encoded_once_however_many_there_are() -> None:
    encode = Encoder()
    files = PictureFiles(encode)
    parts = [part(number) for number in range(300)]
    for _ in range(3):  # three turns, whose pictures are asked for by two episodes at once
        async with files.files_of(parts), files.files_of(parts):
            pass
    assert encode.calls == 300
    async with files.files_of(parts[7:8]) as (file,):
        assert file.path.read_text() == encode(parts[7]).url
        assert file.size == file.path.stat().st_size
    files.clear()
    assert not file.path.parent.exists()
    async with files.files_of(parts[7:8]) as (file,):
        assert file.path.exists()
    files.clear()


async def test_a_request_that_is_under_way_keeps_its_files() -> None:
    """One that waits for a server with old weights is sent, or sent again, after the update that clears them."""
    files = PictureFiles(Encoder())
    async with files.files_of([part(1)]) as (old,):
        async with files.files_of([part(1)]) as (same,):
            files.clear()
        assert old.path.exists()
        assert same.path == old.path
        async with files.files_of([part(1)]) as (new,):
            assert new.path != old.path
    assert not old.path.parent.exists()
    assert new.path.exists()
    files.clear()
    assert not new.path.parent.exists()


async def test_what_failed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = Encoder()
    files = PictureFiles(encode)
    encode.broken = True
    with pytest.raises(OSError, match="no"):
        await first(files, 1)
    encode.broken = False
    assert (await first(files, 1)).size > 0

    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ModelLostError, match="TMPDIR"):
        await first(files, 2)
    files.clear()


async def test_a_body_is_what_json_makes_of_the_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_http, "_PIECE", 50)
    encode = Encoder()
    files = PictureFiles(encode)
    pictures = [await first(files, number) for number in (3, 4, 3)]  # the same twice
    body = streamed_body({"ids": [1, 2], "urls": [picture.mark for picture in pictures], "end": "}"}, pictures)
    pieces = [piece async for piece in body.pieces()]
    assert max(map(len, pieces)) <= 50
    expected = {"ids": [1, 2], "urls": [encode(part(number)).url for number in (3, 4, 3)], "end": "}"}
    assert json.loads(b"".join(pieces)) == expected
    assert body.size == sum(map(len, pieces))
    assert [piece async for piece in body.pieces()] == pieces  # a request is tried again
    with pytest.raises(ValueError, match="does not hold"):
        streamed_body({"urls": []}, pictures)
    files.clear()
