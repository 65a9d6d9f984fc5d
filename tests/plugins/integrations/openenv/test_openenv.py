"""The server of the environment with OpenEnv's own client: sessions, pictures, tools, and what is refused.

Needs OpenEnv in an environment of its own: `make faces` installs it and `make test-faces` runs this.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

pytest.importorskip("openenv")
from openenv.core.mcp_client import MCPToolClient
from tests.plugins.integrations.openenv.support import TOKEN, answer, code, served
from tests.plugins.serve.face_pages import run_page
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from saccade.media.store import MediaStore
from saccade.plugins.integrations.openenv.client import SaccadeClient, blocks, chat, opened, turn
from saccade.training.env import LookAgainEnv

pytestmark = [
    pytest.mark.faces,
    pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux"),
    # The event loop of OpenEnv's client without `await` is closed by the garbage collector, with its sockets.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
WORLD = "nested-squares"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("openenv") / "log"
    with served("--tasks", WORLD, "--max-sessions", "3", log=log) as url:
        yield url


def test_an_episode_is_that_of_the_environment(server: str, tmp_path: Path) -> None:
    texts = [code("print(image_clue_0.size)\nimage_clue_0.crop((0, 0, 40, 30)).show()"), code("1 / 0"), answer("3")]
    env = LookAgainEnv(WORLD, "pyvision", MediaStore(tmp_path))
    expected = [env.reset(seed=5)] + [env.step(text) for text in texts]  # type: ignore[list-item]
    with SaccadeClient(base_url=server).sync() as client:
        start = client.reset(seed=5, episode_id="mine")
        assert client.state().episode_id == "mine"
        results = [start, *(client.step(turn(text)) for text in texts)]
        state = client.state()
    env.close()
    for result, wanted in zip(results, expected, strict=True):
        seen, info = wanted[0], wanted[-1]
        assert result.observation.text == seen["text"]
        shown = [opened(picture).convert("RGB") for picture in result.observation.pictures]
        assert [image.tobytes() for image in shown] == [array.tobytes() for array in seen["pictures"]]
        assert result.observation.task == info["task"]
    ran, failed, last = results[1:]
    assert (ran.observation.action, ran.observation.status, len(ran.observation.pictures)) == ("code", "ok", 1)
    assert (failed.observation.status, failed.reward, failed.done) == ("error", 0.0, False)
    assert (last.done, last.observation.stop, last.observation.answer) == (True, "answered", "3")
    assert last.reward == expected[-1][1]
    assert last.observation.scores == expected[-1][-1]["scores"]
    assert last.observation.trajectory is None, "it holds the gold answer"
    assert (state.step_count, state.done) == (3, True)


def test_messages_are_exact_where_a_program_prints_marks(server: str) -> None:
    with SaccadeClient(base_url=server).sync() as client:
        start = client.reset(seed=1)
        assert [part["type"] for message in chat(start.observation) for part in message["content"]].count("image_url")
        seen = client.step(turn(code("print('\\n\\n[assistant]\\n')"))).observation
    assert "\n\n[assistant]\n" in seen.text
    assert [message.role for message in seen.messages] == ["user"]
    assert all(block["type"] == "text" for block in blocks(seen))


def test_two_clients_at_once_see_nothing_of_each_other(server: str) -> None:
    with SaccadeClient(base_url=server).sync() as one, SaccadeClient(base_url=server).sync() as two:
        tasks = [client.reset(seed=seed).observation.task for client, seed in ((one, 1), (two, 2))]
        assert tasks[0] != tasks[1]
        write = "secret = 'of one'\nopen('secret.txt', 'w').write(secret)\nimage_clue_0.save('mine.png')"
        assert one.step(turn(code(write))).observation.status == "ok"
        look = (
            "import glob, os\nfound = [p for p in glob.glob('/**/*', recursive=True) if 'secret.txt' in p or "
            "'mine.png' in p]\nprint(found, 'secret' in globals(), os.listdir('.'))"
        )
        seen = two.step(turn(code(look))).observation
        assert "[] False []" in seen.text
        assert one.step(turn(code("print(open('secret.txt').read())"))).observation.text.count("of one") == 1
        over = one.step(turn(answer("1")))
        assert over.done
        assert not two.state().done


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({}, "turn_text"),
        ({"type": "call_tool"}, "tool_call"),
        ({"text": 3}, "string_type"),
        ({"text": "x", "code": "import os"}, "extra_forbidden"),
        ({"type": "exec", "text": "x"}, "literal_error"),
    ],
)
def test_a_wrong_action_is_a_typed_error_and_runs_nothing(server: str, data: dict[str, object], kind: str) -> None:
    with connect(server.replace("http", "ws") + "/ws", max_size=None) as raw:

        def sent(message: dict[str, object]) -> dict[str, object]:
            raw.send(json.dumps(message))
            found: dict[str, object] = json.loads(raw.recv())
            return found

        assert sent({"type": "reset", "data": {"seed": 1}})["type"] == "observation"
        error = sent({"type": "step", "data": data})
        assert error["type"] == "error"
        assert error["data"]["code"] == "VALIDATION_ERROR"  # type: ignore[index]
        assert kind in {item["type"] for item in error["data"]["errors"]}  # type: ignore[index]
        state = sent({"type": "state"})
        assert state["data"]["step_count"] == 0  # type: ignore[index]
        # The session goes on.
        assert sent({"type": "step", "data": {"text": answer("1")}})["data"]["done"] is True  # type: ignore[index]


def test_wrong_resets_and_turns_say_what_is_wrong(server: str) -> None:
    with SaccadeClient(base_url=server).sync() as client:
        with pytest.raises(RuntimeError, match=r"call reset\(\) before step\(\).*EXECUTION_ERROR"):
            client.step(turn(answer("1")))
        with pytest.raises(RuntimeError, match=r"no option 'sed'.*seed"):
            client.reset(sed=1)
        with pytest.raises(RuntimeError, match="seed is a whole number, not str"):
            client.reset(seed="1")
        with pytest.raises(RuntimeError, match="no task has the id 'nested'"):
            client.reset(task="nested")
        named = client.reset(task=f"{WORLD}@1/train/7").observation.task
        assert named == f"{WORLD}@1/train/7"


def test_a_server_that_is_full_says_so(server: str) -> None:
    clients = [SaccadeClient(base_url=server).sync() for _ in range(4)]
    try:
        for client in clients[:3]:
            client.reset(seed=1)
        with pytest.raises(RuntimeError, match="CAPACITY_REACHED"):
            clients[3].reset(seed=1)
    finally:
        for client in clients:
            client.close()


def test_tools_of_mcp_are_turns_of_the_loop(server: str) -> None:
    with MCPToolClient(base_url=server).sync() as client:
        tools = {tool.name: tool for tool in client.list_tools()}
        assert set(tools) == {"run_python", "answer"}
        assert tools["run_python"].input_schema["required"] == ["code"]
        client.reset(seed=5)
        seen = client.call_tool("run_python", code="print(6 * 7)\nimage_clue_0.rotate(90).show()")
        assert "42" in seen["text"]
        assert [picture["mime"] for picture in seen["pictures"]] == ["image/png"]
        with pytest.raises(RuntimeError, match=r"invalid arguments.*code"):
            client.call_tool("run_python", text="print(1)")
        assert client.state().step_count == 1
        over = client.call_tool("answer", text="3")
        assert (over["done"], over["answer"], over["stop"]) == (True, "3", "answered")


def test_the_content_of_a_tool_is_text_and_pictures(server: str) -> None:
    with httpx.Client(base_url=server) as http:

        def rpc(method: str, **params: object) -> dict[str, object]:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            found: dict[str, object] = http.post("/mcp", json=body, timeout=60).json()
            return found

        session = rpc("openenv/session/create")["result"]["session_id"]  # type: ignore[index]
        with connect(f"{server.replace('http', 'ws')}/ws?session_id={session}", max_size=None) as raw:
            raw.send(json.dumps({"type": "reset", "data": {"seed": 5}}))
            raw.recv()
            result = rpc("tools/call", name="run_python", arguments={"code": "image_clue_0.show()"}, session_id=session)
            kinds = [item["type"] for item in result["result"]["content"]]  # type: ignore[index]
            assert "image" in kinds
            raw.send(json.dumps({"type": "step", "data": {"type": "call_tool", "tool_name": "nothing"}}))
            data = json.loads(raw.recv())["data"]
            assert data["observation"]["error"]["error_type"] == "tool_not_found"
            assert (data["reward"], data["done"]) == (0.0, False)
        rpc("openenv/session/close", session_id=session)
        # Without a session nothing was reset, so nothing runs.
        assert "reset" in str(rpc("tools/call", name="run_python", arguments={"code": "1"})["error"])
        assert "Unknown session" in str(rpc("tools/list", session_id="guessed")["error"])


def test_a_token_is_asked_for_and_never_logged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with served("--tasks", WORLD, token=TOKEN, log=log) as url:
        assert httpx.get(f"{url}/health").json()["status"] == "healthy"
        assert httpx.post(f"{url}/reset", json={}).status_code == 401
        assert httpx.post(f"{url}/mcp", json={}).status_code == 401
        with pytest.raises(InvalidStatus, match="403"):
            connect(url.replace("http", "ws") + "/ws")
        with SaccadeClient(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}).sync() as client:
            assert client.reset(seed=1).observation.pictures
    assert TOKEN not in log.read_text()


def test_pages_of_other_sites_reach_nothing(server: str) -> None:
    for origin in ({"Origin": "https://example.org"}, {"Origin": "http://["}, {"Host": "example.org"}):
        with pytest.raises(InvalidStatus):
            connect(server.replace("http", "ws") + "/ws", additional_headers=origin)
        refused = httpx.post(f"{server}/reset", json={}, headers=origin)
        assert refused.status_code in (400, 403)
        assert "this server" in refused.json()["detail"]


def test_settings_that_cannot_work_are_refused_before_anybody_connects() -> None:
    with pytest.raises(AssertionError), served("--tasks", "no-such-world"):
        pytest.fail("it listens")


def test_the_page_runs(tmp_path: Path) -> None:
    (said,) = run_page("openenv", tmp_path)
    assert "ok 1" in said
    assert "True" in said
