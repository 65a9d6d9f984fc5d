"""Requests as they went over the wire: exact, with retries and errors, without keys, pictures once."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest
from tests.models.wire_server import WireServer, chat, status

from saccade.cli.main import main
from saccade.errors import RecordError
from saccade.evals.requests import _stored, keeper, read_requests, requests_file, with_media
from saccade.evals.run import evaluate
from saccade.evals.settings import EvalSettings
from saccade.media.store import MediaStore
from saccade.models.exchanges import Exchange

KEY = "sk-very-secret-0123456789"
LOOK = "<code>\n```python\nprint(1)\n```\n</code>"


def asked(server: WireServer, **changes: object) -> EvalSettings:
    given = {
        "model": f"compatible:served@{server.url}/v1",
        "dialect": "pyvision",
        "sources": ("circled-letter",),
        "n": 1,
        "keep_requests": True,
        "retry": {"first_seconds": 0.01},
        **changes,
    }
    return EvalSettings.model_validate(given)


async def test_every_try_is_kept_as_it_was_sent(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SACCADE_COMPATIBLE_API_KEY", KEY)
    server.will(status(500, f"who sent {KEY}?"), chat(LOOK), chat("<answer>\\boxed{A}</answer>"))
    run = tmp_path / "run"
    done = await evaluate(asked(server), run, workers=1)
    assert done.progress.played == 1
    [file] = (run / "requests").iterdir()
    sample = json.loads(file.read_text().splitlines()[0])["id"]
    kept = read_requests(run, sample)
    assert [item.status for item in kept] == [500, 200, 200]
    assert [bool(item.error) for item in kept] == [True, False, False]
    store = MediaStore(run / "media")
    assert [with_media(item.request, store) for item in kept] == server.bodies
    assert json.loads(kept[1].response)["choices"][0]["message"]["content"] == LOOK
    text = file.read_text()
    assert KEY not in text
    assert "base64," not in text.replace("base64,media:", "")
    first = server.bodies[-1]["messages"][0]
    assert text.count(json.dumps(first, separators=(",", ":"), ensure_ascii=False)) <= 1, "a message stands once"


async def test_without_the_setting_nothing_is_kept_and_it_may_change(server: WireServer, tmp_path: Path) -> None:
    server.will(chat("<answer>A</answer>"))
    run = tmp_path / "run"
    await evaluate(asked(server, keep_requests=False, dialect="direct"), run, workers=1)
    assert not (run / "requests").exists()
    await evaluate(asked(server, dialect="direct", n=2), run, workers=1)
    assert len(list((run / "requests").iterdir())) == 1
    assert main(["show", str(run), "--no-open"]) == 0
    page = (run / "index.html").read_text()
    assert page.count("Requests and responses, as sent (1)") == 1
    assert "1. /v1/chat/completions · HTTP 200" in page
    assert main(["report", str(run)]) == 0
    assert "Requests and responses, as sent (1)" in (run / "report.html").read_text()


async def test_a_torn_line_is_no_exchange_and_another_is_refused(server: WireServer, tmp_path: Path) -> None:
    server.will(chat("<answer>A</answer>"))
    run = tmp_path / "run"
    await evaluate(asked(server, dialect="direct"), run, workers=1)
    [file] = (run / "requests").iterdir()
    sample = json.loads(file.read_text())["id"]
    assert file == requests_file(run, sample)
    complete = file.read_bytes()
    file.write_bytes(complete + complete[:40])
    assert len(read_requests(run, sample)) == 1
    (run / "trajectories.jsonl").unlink()
    await evaluate(asked(server, dialect="direct"), run, workers=1)
    assert [item.number for item in read_requests(run, sample)] == [0, 1], "what a kill tore is no part of what follows"
    file.write_bytes(complete.replace(b'"messages":[0]', b'"messages":[7]'))
    with pytest.raises(RecordError, match="names messages that it does not hold"):
        read_requests(run, sample)
    file.write_bytes(b"{}\n")
    with pytest.raises(RecordError, match="line 1 is no kept request"):
        read_requests(run, sample)


@pytest.mark.parametrize(("size", "kept"), [(189, True), (192, False), (300, False)])
def test_a_long_text_of_base64_is_a_picture(size: int, kept: bool, tmp_path: Path) -> None:
    """189 bytes are 252 characters, 192 are the 256 from which a text may be a picture."""
    store = MediaStore(tmp_path)
    text = base64.b64encode(bytes(size)).decode()
    away = _stored({"url": [text]}, store)
    assert (away == {"url": [text]}) is kept
    assert with_media(away, store) == {"url": [text]}


def test_what_could_not_be_put_back_stays(tmp_path: Path) -> None:
    store = MediaStore(tmp_path)
    picture = base64.b64encode(bytes(range(256))).decode()
    url = f"data:image/png;base64,{picture}"
    assert _stored(url, store) == f"data:image/png;base64,media:{hashlib.sha256(bytes(range(256))).hexdigest()}"
    for text in (f"data:{picture}", "B" * 254 + "C=", "word " * 60):
        assert _stored(text, store) == text


def test_the_requests_of_runs_of_before_are_found(tmp_path: Path) -> None:
    name = "ca978112ca1bbdcafac231b3.jsonl"  # the first 24 digits of the sha256 of "a"
    assert requests_file(tmp_path, "a").relative_to(tmp_path).parts[1:] == (name,)


def test_bodies_of_any_kind_are_kept_and_messages_once(tmp_path: Path) -> None:
    store = MediaStore(tmp_path / "media")
    bodies = [
        b"\xff no JSON",
        b"[1]",
        b'{"messages": "none", "n": 1}',
        b'{"messages": [{"a": 1}, {"b": 2}]}',
        b'{"messages": [{"b": 2}, {"c": 3}, {"b": 2}]}',
    ]
    for half in (bodies[:3], bodies[3:]):  # a run that is continued counts on
        keep = keeper(tmp_path, "s", store)
        for sent in half:
            keep(Exchange(path="/v1", sent=sent, status=200, received=bytearray(b"\xffok"), seconds=0.5))
    keep(Exchange(received=bytearray(b"12345"), encoding="br", error="gone"))
    found = read_requests(tmp_path, "s")
    assert [one.number for one in found] == [0, 1, 2, 3, 4, 5]
    assert [one.request for one in found] == [
        *("\ufffd no JSON", [1], {"messages": "none", "n": 1}),
        {"messages": [{"a": 1}, {"b": 2}]},
        {"messages": [{"b": 2}, {"c": 3}, {"b": 2}]},
        "",
    ]
    lines = [json.loads(line) for line in requests_file(tmp_path, "s").read_text().splitlines()]
    assert [(line["messages"], line["request"]) for line in lines[3:5]] == [
        ([{"a": 1}, {"b": 2}], {"messages": [0, 1]}),
        ([{"c": 3}], {"messages": [1, 2, 1]}),
    ]
    assert (found[0].path, found[0].status, found[0].seconds, found[0].response) == ("/v1", 200, 0.5, "\ufffdok")
    assert (found[5].error, found[5].response) == ("gone", "(5 bytes, compressed with br)")
