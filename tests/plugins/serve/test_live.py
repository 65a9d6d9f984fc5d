"""What the live page asks for: an episode as events, its stop, examples; and who may not ask."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.plugins.serve.agents import ANSWER, CODE, TOKEN, Slow, asking, data_url, serving, two_turns

from saccade.errors import ModelLostError
from saccade.models.base import Model
from saccade.models.scripted import ScriptedModel
from saccade.plugins.serve.live import example_medium, examples
from saccade.record.execution import Status
from saccade.sandbox.result import RunResult
from saccade.sandbox.scripted import ScriptedSandbox

HEADERS = {"authorization": f"Bearer {TOKEN}"}


def box() -> ScriptedSandbox:
    return ScriptedSandbox(lambda code: RunResult(Status.OK, stdout="<b>42</b>\n", committed=True))


async def events(client: httpx.AsyncClient, model: str, **changes: Any) -> AsyncIterator[dict[str, Any]]:
    body = {"model": model, "messages": asking("Which <i>colour</i>?"), **changes}
    async with client.stream("POST", "/live/ask", json=body) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            if line:
                yield json.loads(line.removeprefix("data: "))


def http(url: str, **headers: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url.removesuffix("/v1"), headers={**HEADERS, **headers}, timeout=60)


async def test_an_episode_comes_as_it_happens_and_ends_as_a_page() -> None:
    async with serving({"m": ScriptedModel(two_turns)}, sandbox=box()) as url, http(url) as client:
        heard = [event async for event in events(client, "m")]
    kinds = [event["kind"] for event in heard]
    assert kinds[:3] == ["state", "begun", "shown"]
    assert heard[0]["state"] == "opening"
    assert kinds[-2:] == ["shown", "done"]
    shown = [event for event in heard if event["kind"] == "shown"]
    assert [event["state"] for event in shown] == ["asking", "running", "asking", "ended"]
    assert "".join(event["piece"] for event in heard if event["kind"] == "text") == CODE + ANSWER
    assert 'class="turn ' not in shown[0]["html"]
    assert "runs code …" in shown[1]["html"]
    assert "&lt;b&gt;42" not in shown[1]["html"]
    assert "&lt;b&gt;42&lt;/b&gt;" in shown[2]["html"]
    assert "runs code …" not in shown[2]["html"]
    assert "Which &lt;i&gt;colour" in shown[0]["html"]
    assert len(shown[0]["pictures"]) == 1
    assert all(not event["pictures"] for event in shown[1:]), "a picture is sent once"
    [key] = shown[0]["pictures"]
    done = heard[-1]
    assert (done["answer"], done["stop"], done["turns"]) == ("blue", "answered", 2)
    assert done["page"].startswith("<!doctype html>")
    assert key in done["page"]
    assert "&lt;b&gt;42&lt;/b&gt;" in done["page"]


async def test_a_piece_of_text_may_end_inside_a_character() -> None:
    class Halves(Slow):
        async def complete(self, request: Any, media: Any, *, on_text: Any = None) -> Any:
            for half in ("\ud83d", "\ude00"):
                on_text(half)
                await asyncio.sleep(0.05)
            return await super().complete(request, media)

    async with serving({"m": Halves(0)}, sandbox=box()) as url, http(url) as client:
        heard = [event async for event in events(client, "m")]
    pieces = [event["piece"] for event in heard if event["kind"] == "text"]
    assert "".join(pieces).startswith("\ud83d\ude00")
    assert heard[-1]["kind"] == "done"


async def test_it_is_stopped_by_its_name_alone() -> None:
    model = Slow(60)
    async with serving({"m": model}, sandbox=box()) as url, http(url) as client:
        heard = []
        async for event in events(client, "m"):
            heard.append(event)
            if event["kind"] == "begun":
                for wrong in ("0" * 32, None, ["x"]):
                    assert (await client.post("/live/stop", json={"id": wrong})).status_code == 404
                assert (await client.post("/live/stop", json={"id": event["id"]})).status_code == 200
        assert (heard[-1]["kind"], heard[-1]["stop"], heard[-1]["answer"]) == ("done", "cancelled", None)
        [name] = [event["id"] for event in heard if event["kind"] == "begun"]
        assert (await client.post("/live/stop", json={"id": name})).status_code == 404, "it has ended"


async def test_who_leaves_ends_it_and_nothing_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = Slow(60)
    async with serving({"m": model}, sandbox=box()) as url:
        async with http(url) as client:
            stream = events(client, "m")
            while (await anext(stream))["kind"] != "begun":
                pass
            while not model.waiting:
                await asyncio.sleep(0.01)
            assert list(tmp_path.glob("saccade-serve-*/*"))
            await stream.aclose()
        for _ in range(500):
            if model.cancelled and not list(tmp_path.glob("saccade-serve-*/*")):
                break
            await asyncio.sleep(0.01)
    assert model.cancelled == 1
    assert not list(tmp_path.glob("saccade-serve-*/*"))


async def test_the_page_holds_no_secret_and_may_ask_nobody_else() -> None:
    async with serving({"secret-model": Slow(0)}, sandbox=box()) as url:
        async with httpx.AsyncClient(base_url=url.removesuffix("/v1")) as stranger:
            page = await stranger.get("/")
            assert page.status_code == 200
            assert "secret-model" not in page.text
            assert TOKEN not in page.text
            policy = page.text.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
            assert policy.startswith("default-src &#39;none&#39;; img-src data:;")
            assert "connect-src &#39;self&#39;" in policy
            assert "unsafe" not in policy
            assert page.headers["content-security-policy"] == "frame-ancestors 'none'"
            assert "://" not in page.text.replace("http://www.w3.org/2000/svg", "")
            for path in ("/live/about", "/live/examples", "/live/examples/search/0"):
                assert (await stranger.get(path)).status_code == 401
            for path in ("/live/ask", "/live/stop"):
                assert (await stranger.post(path, json={})).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
        {"sec-fetch-site": "same-site", "origin": "http://localhost:1"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
    ],
)
async def test_the_page_of_another_site_drives_nothing(headers: dict[str, str]) -> None:
    model = Slow(0)
    body = {"model": "m", "messages": asking()}
    async with serving({"m": model}, sandbox=box(), token=None) as url:
        async with httpx.AsyncClient(base_url=url.removesuffix("/v1"), headers=headers) as evil:
            for answer in (
                await evil.post("/live/ask", json=body),
                await evil.post("/live/ask", content=json.dumps(body), headers={"content-type": "text/plain"}),
                await evil.post("/live/stop", json={"id": "x"}),
                await evil.get("/live/about"),
                await evil.get("/live/examples/search/0"),
            ):
                assert answer.status_code == 403, answer.text
                assert "access-control-allow-origin" not in answer.headers
        own = httpx.AsyncClient(base_url=url.removesuffix("/v1"), headers={"origin": url.removesuffix("/v1")})
        async with own, httpx.AsyncClient() as rebound:
            assert model.asked == 0
            assert (await own.get("/live/about")).json()["models"] == [{"name": "m", "full": "m"}]
            plain = {"content-type": "text/plain"}  # what a form of another site can send without being asked
            assert (await own.post("/live/ask", content=json.dumps(body), headers=plain)).status_code == 415
            address = f"{url.removesuffix('/v1')}/live/about"
            assert (await rebound.get(address, headers={"host": "evil.example"})).status_code == 400


async def test_wrong_and_large_questions_are_refused_before_anything_is_asked() -> None:
    model = Slow(0)
    async with serving({"m": model}, sandbox=box(), max_body_bytes=20_000) as url, http(url) as client:
        noise = base64.b64encode(b"no picture").decode()
        for changes, said in (
            ({"model": "other"}, "not served"),
            ({"messages": asking(url=f"data:image/png;base64,{noise}")}, "neither a picture"),
            ({"messages": asking("")}, "question is empty"),
        ):
            heard = [event async for event in events(client, **{"model": "m", **changes})]
            assert [event["kind"] for event in heard] == ["state", "failed"]
            assert said in heard[-1]["message"]
        for changes, status in (
            ({"messages": asking(url="file:///etc/passwd")}, 400),
            ({"messages": asking(url="http://127.0.0.1:1/x.png")}, 400),
            ({"messages": asking("x" * 30_000)}, 413),
            ({"surprise": 1}, 400),
        ):
            answer = await client.post("/live/ask", json={"model": "m", "messages": asking(), **changes})
            assert answer.status_code == status, (changes, answer.text)
            assert answer.json()["error"]["message"]
        for path in ("/live/examples/search/1", "/live/examples/none/0", "/live/examples/..%2f/0"):
            assert (await client.get(path)).status_code == 404
    assert model.asked == 0


async def test_an_outage_is_told() -> None:
    lost: Model = ScriptedModel([])  # refuses the first request
    async with serving({"m": lost}, sandbox=box()) as url, http(url) as client:
        heard = [event async for event in events(client, "m")]
    assert heard[-1]["stop"] == "model_refused"
    assert 'class="stop bad"' in heard[-2]["html"]


SPEC = "compatible:slow@http://10.1.2.3:8911/v1"


@pytest.mark.parametrize("token", [TOKEN, None])
async def test_visitors_are_never_told_where_a_model_is(token: str | None) -> None:
    lost = ScriptedModel([])

    async def outage(*_: object, **__: object) -> None:
        raise ModelLostError("it cannot be reached at http://10.1.2.3:8911/v1: refused.")

    lost.name, lost.complete = "local:/home/me/slow", outage  # type: ignore[method-assign, assignment]
    async with serving({SPEC: lost}, sandbox=box(), token=token) as url, http(url) as client:
        about = (await client.get("/live/about")).json()["models"]
        ids = [one["id"] for one in (await client.get("/v1/models")).json()["data"]]
        seen = json.dumps([event async for event in events(client, "slow")])
        body = {"model": "slow", "messages": asking(), "saccade": {"dialect": "native"}}
        for path in ("/v1/chat/completions", "/v1/responses"):
            given = body if "chat" in path else {"model": "slow", "input": "x"}
            seen += (await client.post(path, json=given)).text
        seen += (await client.get("/v1/models/other")).text
    assert ids == ["slow"]
    assert "model_lost" in seen
    assert about == [{"name": "slow", "full": "" if token else SPEC}]
    for secret in ("10.1.2.3", "compatible:", "/home/me"):
        assert (secret in seen + json.dumps(about)) is (token is None)


async def test_a_model_can_be_asked_by_its_short_and_its_full_name() -> None:
    names = [SPEC, "vllm:slow@http://h:1/v1", "vllm:org/slow@http://h:2/v1", "local:/home/me/step-10/", "tiny"]
    async with serving({name: Slow(0) for name in names}, sandbox=box()) as url, http(url) as client:
        ids = [one["id"] for one in (await client.get("/v1/models")).json()["data"]]
        assert ids == ["slow", "vllm:slow", "slow-2", "step-10", "tiny"]
        for name in (*names, *ids):
            answer = (await client.post("/v1/chat/completions", json={"model": name, "messages": asking()})).json()
            assert (answer["model"], answer["choices"][0]["message"]["content"]) == (name, "blue")


async def test_a_file_is_checked_and_called_by_its_name() -> None:
    async with serving({"m": ScriptedModel(two_turns)}, sandbox=box()) as url, http(url) as client:
        good = await client.post("/live/check", json={"url": data_url(), "filename": "street.png"})
        assert good.json()["holds"] == "40×30"
        assert good.json()["thumbnail"].startswith("data:image/webp;base64,")
        broken = {"url": data_url()[:60], "filename": "../holiday.png"}
        answer = await client.post("/live/check", json=broken)
        assert answer.status_code == 400
        assert "holiday.png is no picture that can be used" in answer.json()["error"]["message"]
        body = asking()
        body[0]["content"][0]["image_url"]["filename"] = "street.png"
        heard = [event async for event in events(client, "m", messages=body)]
    assert "street.png" in heard[-2]["html"]
    assert "0-street.png <" not in heard[-2]["html"]


async def test_it_is_said_whether_one_waits_for_others() -> None:
    model = Slow(60)
    async with serving({"m": model}, sandbox=box(), max_requests=1) as url, http(url) as client:
        first, second = events(client, "m"), events(client, "m")
        assert (await anext(first))["state"] == "opening"
        assert (await anext(second))["state"] == "waiting"
        await first.aclose()
        assert (await anext(second))["state"] == "opening"
        await second.aclose()


def test_the_examples_are_the_six_families() -> None:
    listed = examples()
    assert [one["name"] for one in listed] == ["sketch", "puzzle", "difference", "video", "search", "medical"]
    assert [one["seconds"] for one in listed] == sorted(one["seconds"] for one in listed), "the quick ones come first"
    for one in listed:
        if problem := one.get("problem"):
            assert "saccade-vlm[video]" in problem
            continue
        assert one["question"]
        for number, mime in enumerate(one["media"]):
            medium = example_medium(one["name"], number)
            assert medium is not None
            assert medium.mime == mime
            assert len(medium.data) < 2_000_000
        assert one["thumbnail"].startswith("data:image/webp;base64,")
        assert len(one["thumbnail"]) < 80_000
    assert example_medium("search", 1) is None
    assert example_medium("search", -1) is None
