"""The wires of verl-tool and of VISTA-Gym's client for MultiMath, over real HTTP, from both sides."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from PIL import Image
from tests.models.listening import listening
from tests.models.wire_server import WireServer, chat

from saccade.core.retry import RetryPolicy
from saccade.errors import RegistryError, ToolError
from saccade.plugins.serve.verl_tool import verl_tool_app
from saccade.record.execution import Status
from saccade.tools.context import Numbering, ToolContext
from saccade.tools.serving import TOOL_SERVERS, PooledBackend, ToolServeSettings, ToolService
from saccade.tools.setup import VARIABLE, ToolCallSettings
from saccade.tools.toolbox import Toolbox, check_recorded_tools, named_tools


def data_url(image: Image.Image, kind: str = "PNG") -> str:
    out = io.BytesIO()
    image.save(out, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(out.getvalue()).decode()}"


def opened(url: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


PICTURE = Image.linear_gradient("L").convert("RGB").resize((100, 60))
CALL = '<think>Look.</think><tool_call>{"name": "zoom_in", "arguments": {"bbox_2d": [0, 0, 50, 30]}}</tool_call>'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pictures")
    PICTURE.save(made / "a.png")
    return made


@pytest.fixture(scope="module")
def face(folder: Path) -> Iterator[str]:
    settings = ToolServeSettings.model_validate(
        {
            "groups": {"all": {"tools": ("crop", "color_stats", "gllava"), "workers": 1}},
            "server": {"media_folders": (str(folder),)},
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        (folder / "setup.toml").write_text("[gllava]\nmodel = 'compatible:it@http://127.0.0.1:9/v1'\n", "utf-8")
        patch.setenv(VARIABLE, str(folder / "setup.toml"))
        service = ToolService(PooledBackend(settings), settings.server)
        with listening(verl_tool_app(service, None), lifespan="on") as url:
            yield url


def observed(face: str, *actions: str, extra: Any = None, ids: Any = None, **more: Any) -> Any:
    names = ids or [f"t{number}" for number in range(len(actions))]
    body = {"trajectory_ids": names, "actions": actions, **({"extra_fields": [extra] * len(names)} if extra else {})}
    answer = httpx.post(f"{face}/get_observation", json={**body, **more}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_call_gives_what_verl_tools_client_reads(face: str) -> None:
    got = observed(face, CALL, extra={"images": [data_url(PICTURE)], "question": "Which?"})
    assert set(got) == {"observations", "dones", "valids", "processing_time_ms", "queue_time_ms"}
    assert (got["dones"], got["valids"]) == ([False], [True])
    (observation,) = got["observations"]
    assert observation["obs"].count("<image>") == len(observation["image"]) == 1
    assert "New image image_1: 50 × 30 pixels." in observation["obs"]
    assert opened(observation["image"][0]).tobytes() == PICTURE.crop((0, 0, 50, 30)).tobytes()


def test_a_trajectory_keeps_its_pictures_until_it_finishes(face: str) -> None:
    extra = {"images": [data_url(PICTURE, "JPEG")]}
    observed(face, CALL, extra=extra, ids=["kept"])
    again = CALL.replace('"bbox_2d"', '"target_image": 2, "bbox_2d"').replace("50, 30", "10, 10")
    assert "image_2: 10 × 10" in observed(face, again, extra=extra, ids=["kept"])["observations"][0]["obs"]
    assert observed(face, "", extra={"finish": True}, ids=["kept"])["dones"] == [True]
    gone = observed(face, again, extra=extra, ids=["kept"])
    assert gone["valids"] == [False]
    assert "There is no image number 2" in gone["observations"][0]
    assert observed(face, "", ids=["kept"], finish=[True])["dones"] == [True]


def test_a_batch_keeps_its_order_and_tells_what_was_no_call(face: str) -> None:
    vista = '<think>a</think><tool_call>{"tool": "color_stats", "task": "see"}</tool_call>'
    actions = ["I think.", vista, '<tool_call>{"name": "fly", "arguments": {}}</tool_call>', "<answer>4</answer>",
               '<tool_call>{"tool": "crop", "bx": 1}</tool_call>']  # fmt: skip
    got = observed(face, *actions, extra={"image": data_url(PICTURE)})
    assert got["valids"] == [False, True, False, False, False]
    assert got["dones"] == [False] * 5
    first, second, third, fourth, fifth = got["observations"]
    assert first["obs"] == ""
    assert first["available_tools"] == "color_stats, crop, gllava"
    assert second.startswith("```output")
    assert "no tool named 'fly'" in third["invalid_reason"]
    assert "answer" in fourth["invalid_reason"]
    assert "Error: There is no argument 'bx'" in fifth


@pytest.mark.parametrize(
    ("picture", "says"),
    [
        ("/etc/passwd", "below none of server.media_folders"), ("{folder}/../x.png", "below none"),
        ("{folder}/none.png", "cannot be read"), ("{folder}/setup.toml", ""), ("data:image/png;base64,!!", "base64"),
        ("data:image/png;base64,aGVsbG8=", ""),
    ],
)  # fmt: skip
def test_a_picture_that_a_client_may_not_name_or_that_is_none_ends_the_trajectory(
    face: str, folder: Path, picture: str, says: str
) -> None:
    got = observed(face, CALL, extra={"images": [picture.format(folder=folder)]}, ids=[picture])
    assert (got["dones"], got["valids"]) == ([True], [False])
    assert says in got["observations"][0]["error"]
    assert got["observations"][0]["error"]


def test_a_picture_by_its_path_below_a_named_folder(face: str, folder: Path) -> None:
    got = observed(face, CALL, extra={"images": [str(folder / "a.png")]}, ids=["by path"])
    assert got["valids"] == [True]


@pytest.mark.parametrize(
    "body",
    [
        {"trajectory_ids": [], "actions": []}, {"trajectory_ids": ["a"], "actions": ["b", "c"]},
        {"trajectory_ids": ["a"], "actions": ["b"], "extra_fields": []}, {"trajectory_ids": ["a"]},
        {"trajectory_ids": ["a"], "actions": ["b"], "finish": [True, False]},
    ],
)  # fmt: skip
def test_a_body_whose_lists_do_not_fit_is_refused(face: str, body: dict[str, Any]) -> None:
    assert httpx.post(f"{face}/get_observation", json=body).status_code == 422


def test_health_has_the_words_that_the_router_looks_for_and_the_own_wire_is_there(face: str) -> None:
    health = httpx.get(f"{face}/health").json()
    assert health["status"] == "healthy"
    assert health["tools"] == ["color_stats", "crop", "gllava"]
    assert {"concurrent_requests", "thread_pool_size", "active_tasks", "max_concurrent", "uptime_seconds"} < set(health)
    assert httpx.get(f"{face}/v1/health").json() == {"status": "alive"}


def test_solve_as_the_released_client_asks(
    face: str, folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "here.toml").write_text(f"[gllava]\nmodel = 'compatible:it@{server.url}/v1'\n", "utf-8")
    monkeypatch.setenv(VARIABLE, str(folder / "here.toml"))
    server.will(chat("Step 1.\nAnswer: 58"))
    asked = {"question": "Find R.", "task": "solve", "output_format": "answer_only", "problem_type": "general",
             "image_base64": data_url(PICTURE).partition(",")[2]}  # fmt: skip
    assert httpx.post(f"{face}/solve", json=asked, timeout=60).json() == {
        "success": True, "answer": "58", "steps": ["Step 1.", "Answer: 58"]
    }  # fmt: skip
    without = httpx.post(f"{face}/solve", json={"question": "Find R."}, timeout=60).json()
    assert without["success"] is False
    assert "no image" in without["error"]
    assert httpx.post(f"{face}/solve", json={"question": ""}).status_code == 422


# The other way: a server of verl-tool that runs already.


def test_a_client_calls_the_face_and_gets_what_the_tool_gives(face: str) -> None:
    (tool,) = named_tools(f"verl-tool:{face}#zoom_in", ToolCallSettings())
    context = ToolContext({"image_0": PICTURE}, numbering=Numbering("image_", 1))
    result = tool.call({"bbox_2d": [0, 0, 50, 30]}, context)
    assert result.ok, result.problem
    assert [picture.name for picture in result.pictures] == ["image_1"]
    assert result.pictures[0].image.tobytes() == PICTURE.crop((0, 0, 50, 30)).tobytes()
    wrong = tool.call({"bx": 1}, context)
    assert wrong.status is Status.ERROR
    assert "no argument 'bx'" in wrong.text
    assert tool.call(["bx"], context).status is Status.ERROR


@pytest.mark.parametrize(
    ("observations", "valid", "status", "says"),
    [
        (["plain"], True, Status.OK, "plain"), ([{"obs": "with\n<image>"}], True, Status.OK, "with"),
        ([{"obs": "", "invalid_reason": "no box"}], False, Status.ERROR, "no box"),
        ([{"obs": "", "error": "Tool processing failed"}], False, Status.LOST, "Tool processing failed"),
        ([], True, Status.LOST, "does not answer as verl-tool does"),
        ([{"obs": "a", "image": "data:image/png;base64,aGk="}], True, Status.LOST, ""),
    ],
)  # fmt: skip
def test_what_such_a_server_may_answer(observations: list[Any], valid: bool, status: Status, says: str) -> None:
    app, heard = FastAPI(), list[Any]()

    async def answer(request: Request) -> dict[str, Any]:
        heard.append(await request.json())
        return {"observations": observations, "dones": [False], "valids": [valid]}

    app.post("/get_observation")(answer)
    with listening(app) as url:
        retry = RetryPolicy(tries=1)
        (tool,) = named_tools(f"verl-tool:{url}#zoom_in", ToolCallSettings(retry=retry))
        result = tool.call({"bbox_2d": [0, 0, 9, 9]}, ToolContext({"a": PICTURE}, question="Which?"))
    assert result.status is status
    assert says in (result.text or (result.problem.detail if result.problem else ""))
    first, *finish = heard
    assert first["actions"] == ['<tool_call>{"name": "zoom_in", "arguments": {"bbox_2d": [0, 0, 9, 9]}}</tool_call>']
    assert first["extra_fields"][0]["question"] == "Which?"
    (sent,) = first["extra_fields"][0]["images"]
    assert sent.startswith("data:image/jpeg;base64,"), "the only prefix that its tools cut off"
    assert opened(sent).tobytes() == PICTURE.tobytes()
    assert [one["extra_fields"][0]["finish"] for one in finish] == [True] * len(finish)
    assert all(one["trajectory_ids"] == first["trajectory_ids"] for one in finish)


def test_names_of_such_tools() -> None:
    assert TOOL_SERVERS.has("verl-tool")
    with pytest.raises(ToolError, match="names no call"):
        Toolbox.of("verl-tool:http://127.0.0.1:9")
    with pytest.raises(RegistryError, match="not run by itself"):
        check_recorded_tools(["verl-tool:http://127.0.0.1:9#zoom_in"])
