"""The providers' own sandboxes run the code: through the real clients, against a server in the documented forms."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.models.helpers import Media, Waits, ask, endpoint
from tests.models.wire_gemini import generated
from tests.models.wire_responses import message, responded
from tests.models.wire_sandbox import (
    SandboxServer,
    bash_result,
    blocks,
    drawn,
    image,
    interpreted,
    logs,
    png,
    ran,
    result,
    sandbox_running,
    text,
    use,
)
from tests.models.wire_server import Behaviour, stalled, status

from saccade.core.retry import RetryPolicy
from saccade.errors import ModelLostError, ModelRefusedError
from saccade.media.store import MediaStore
from saccade.models.base import Completion, Model
from saccade.models.exchanges import Exchange, heard
from saccade.models.providers.anthropic import AnthropicModel
from saccade.models.providers.gemini import GeminiModel
from saccade.models.providers.openai import OpenAIModel
from saccade.models.providers.responses import ResponsesModel
from saccade.record.execution import HostedCall, Status
from saccade.record.trajectory import FinishReason

CANARY = "sk-canary-77"
MAKERS: dict[str, Callable[..., Model]] = {
    "responses": lambda place: ResponsesModel(place, api_key=CANARY),
    "anthropic": lambda place: AnthropicModel(place, api_key=CANARY),
    "gemini": lambda place: GeminiModel(place, api_key=CANARY),
}
PATHS = {"responses": "/v1", "anthropic": "", "gemini": ""}


@pytest.fixture(scope="module")
def _running() -> Iterator[SandboxServer]:
    with sandbox_running() as server:
        yield server


@pytest.fixture
def box(_running: SandboxServer) -> SandboxServer:
    _running.files.clear()
    _running.containers.clear()
    _running.leaves.clear()
    _running.seen.clear()
    _running.withheld.clear()
    _running.undeletable = False
    return _running


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path)


async def asked(
    box: SandboxServer, store: MediaStore, name: str, *, on_text: Any = None, tries: int = 2, seconds: float = 20.0
) -> Completion:
    picture = store.put_image(Image.new("RGB", (8, 6), "blue"))
    policy = RetryPolicy(tries=tries, seconds=seconds)
    place = endpoint(box.url + PATHS[name], Waits(), model="served", retry=policy)
    model = MAKERS[name](place)
    try:
        return await model.complete(ask("What?", picture, hosted=True), store, on_text=on_text)
    finally:
        await model.close()


def said(name: str, *, outcome: str = "ok") -> Behaviour:
    """One call that draws a picture, between two texts."""
    before, after = "Closer. ", "<answer>red</answer>"
    good = outcome == "ok"
    if name == "responses":
        call = interpreted("print(1)", logs("1\n"), image(png()), status="completed" if good else "failed")
        return responded(message(before), call, message(after))
    if name == "gemini":
        how = {"ok": "OUTCOME_OK", "error": "OUTCOME_FAILED", "timeout": "OUTCOME_DEADLINE_EXCEEDED"}[outcome]
        return generated(before, *ran("print(1)", "1\n", how), drawn(png()), after)
    given = use("bash_code_execution", {"command": "python -c 'print(1)'"})
    if outcome == "timeout":
        error = {"type": "bash_code_execution_tool_result_error", "error_code": "execution_time_exceeded"}
        return blocks(text(before), given, result("bash_code_execution", error), text(after))
    done = bash_result("1\n", "" if good else "boom", 0 if good else 1, ("file_out",))
    return blocks(text(before), given, done, text(after))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", MAKERS)
async def test_a_call_with_its_picture(box: SandboxServer, store: MediaStore, name: str, streamed: bool) -> None:
    box.files["file_out"] = ("crop.png", png())
    pieces: list[str] = []
    answer = await asked(box.will(said(name)), store, name, on_text=pieces.append if streamed else None)  # type: ignore[arg-type]
    assert (answer.text, answer.finish) == ("Closer. <answer>red</answer>", FinishReason.STOP)
    assert "".join(pieces) == (answer.text if streamed else "")
    [call] = answer.hosted
    assert "print(1)" in call.code
    assert (call.language, call.at) == ("bash" if name == "anthropic" else "python", len("Closer. "))
    ran = call.execution
    assert (ran.status, ran.stdout, ran.traceback, ran.notes) == (Status.OK, "1\n", None, ())
    [picture] = ran.pictures
    assert (picture.image.width, picture.image.height) == (4, 3)
    assert store.get_bytes(picture.image.sha256) == png()
    assert answer.tool_calls == ()
    assert answer.usage.prompt_tokens is not None


async def test_openai_gets_a_container_with_the_pictures_and_it_is_deleted(
    box: SandboxServer, store: MediaStore
) -> None:
    box.leaves = {"/mnt/data/crop.png": png("green"), "/mnt/data/table.csv": b"1,2"}
    box.will(responded(interpreted("crop()", logs("done")), message("<answer>red</answer>")))
    inside: list[Any] = []

    async def looks(body: dict[str, Any]) -> Any:
        inside.extend(box.containers[body["tools"][0]["container"]].values())
        return await responded(interpreted("crop()", logs("done")), message("<answer>red</answer>"))(body)

    answer = await asked(box.will(looks), store, "responses")  # type: ignore[arg-type]
    uploaded = [(path, source) for path, _, source in inside]
    assert ("/mnt/data/image_0.png", "user") in uploaded
    assert Image.open(__import__("io").BytesIO(inside[-1][1])).size == (8, 6)
    body = box.bodies[0]
    assert body["include"] == ["code_interpreter_call.outputs"]
    assert body["tools"] == [{"type": "code_interpreter", "container": "cntr_0"}]
    [call] = answer.hosted
    [picture] = call.execution.pictures
    assert (picture.source, picture.path) == ("file", "/mnt/data/crop.png")
    assert [(file.path, file.size) for file in call.execution.files] == [("/mnt/data/table.csv", 3)]
    assert box.containers == {}
    assert box.seen == [("POST", "cntr_0"), ("DELETE", "cntr_0")]


async def test_claude_gets_the_pictures_as_files_and_they_are_deleted(box: SandboxServer, store: MediaStore) -> None:
    box.files["file_out"] = ("crop.png", png())
    await asked(box.will(said("anthropic")), store, "anthropic")  # type: ignore[arg-type]
    body = box.bodies[0]
    assert body["tools"] == [{"type": "code_execution_20250825", "name": "code_execution"}]
    [*_, shown, upload] = body["messages"][0]["content"]
    assert (shown["type"], upload["type"]) == ("image", "container_upload")
    assert box.files == {}  # the uploaded one and the one that the code left
    assert ("DELETE", upload["file_id"]) in box.seen


async def test_gemini_gets_the_tool(box: SandboxServer, store: MediaStore) -> None:
    await asked(box.will(said("gemini")), store, "gemini")  # type: ignore[arg-type]
    assert box.bodies[0]["tools"] == [{"codeExecution": {}}]


@pytest.mark.parametrize("name", MAKERS)
async def test_a_call_that_fails_is_an_outcome(box: SandboxServer, store: MediaStore, name: str) -> None:
    box.files["file_out"] = ("crop.png", png())
    answer = await asked(box.will(said(name, outcome="error")), store, name)  # type: ignore[arg-type]
    [call] = answer.hosted
    assert call.execution.status is Status.ERROR
    assert call.execution.traceback
    assert answer.text.endswith("<answer>red</answer>")


@pytest.mark.parametrize("name", ["anthropic", "gemini"])
async def test_a_call_that_took_too_long(box: SandboxServer, store: MediaStore, name: str) -> None:
    answer = await asked(box.will(said(name, outcome="timeout")), store, name)  # type: ignore[arg-type]
    assert answer.hosted[0].execution.status is Status.TIMEOUT


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("unavailable", Status.LOST),
        ("too_many_requests", Status.LOST),
        ("container_expired", Status.LOST),
        ("invalid_tool_input", Status.REFUSED),
        ("output_file_too_large", Status.ERROR),
    ],
)
async def test_errors_of_claudes_sandbox(box: SandboxServer, store: MediaStore, error: str, expected: Status) -> None:
    content = {"type": "bash_code_execution_tool_result_error", "error_code": error}
    box.will(blocks(use("bash_code_execution", {"command": "ls"}), result("bash_code_execution", content), text("x")))
    [call] = (await asked(box, store, "anthropic")).hosted
    assert (call.execution.status, call.execution.traceback) == (expected, error)


async def test_a_paused_turn_goes_back_as_it_came(box: SandboxServer, store: MediaStore) -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "sealed"}
    first = [thought, text("Looking. "), use("bash_code_execution", {"command": "ls"}), bash_result("image_0.png\n")]
    second = [use("bash_code_execution", {"command": "crop"}, 2), bash_result("", at=2), text("<answer>red</answer>")]
    box.will(blocks(*first, text(" "), reason="pause_turn"), blocks(*second))
    heard_: list[str] = []
    answer = await asked(box, store, "anthropic", on_text=heard_.append)
    assert answer.text == "".join(heard_) == "<think>Hm.</think>Looking.  <answer>red</answer>"
    assert [(call.code, call.at) for call in answer.hosted] == [("ls", 27), ("crop", 28)]
    again = box.bodies[1]
    assert again["container"] == "container_1"
    assert "container" not in box.bodies[0]
    assert again["messages"][-1] == {"role": "assistant", "content": first}
    assert again["messages"][:-1] == box.bodies[0]["messages"]
    assert (answer.usage.prompt_tokens, answer.usage.sampled_tokens) == (1000, 20)


async def test_a_turn_that_is_paused_without_end_is_cut_off(
    box: SandboxServer, store: MediaStore, caplog: pytest.LogCaptureFixture
) -> None:
    box.will(blocks(text("Hm. "), reason="pause_turn"))
    with caplog.at_level(logging.WARNING, "saccade.models.providers.anthropic"):
        answer = await asked(box, store, "anthropic")
    assert answer.finish is FinishReason.LENGTH
    assert len(box.bodies) == 21
    assert "paused its answer 21 times" in caplog.text


async def test_claudes_editor_and_old_tool(box: SandboxServer, store: MediaStore) -> None:
    view = {"type": "text_editor_code_execution_view_result", "file_type": "text", "content": "a = 1", "num_lines": 1}
    made = {"type": "text_editor_code_execution_create_result", "is_file_update": False}
    old = {"type": "code_execution_result", "stdout": "2", "stderr": "", "return_code": 0, "content": []}
    sealed = {"type": "encrypted_code_execution_result", "encrypted_stdout": "x", "stderr": "", "return_code": 0}
    box.will(
        blocks(
            use("text_editor_code_execution", {"command": "view", "path": "a.py"}, 1),
            result("text_editor_code_execution", view, 1),
            use("text_editor_code_execution", {"command": "create", "path": "b.py", "file_text": "b"}, 2),
            result("text_editor_code_execution", made, 2),
            use("code_execution", {"code": "print(2)"}, 3),
            result("code_execution", old, 3),
            use("code_execution", {"code": "search()"}, 4),
            result("code_execution", {**sealed, "content": []}, 4),
            text("done"),
        )
    )
    one, two, three, four = (await asked(box, store, "anthropic")).hosted
    assert (one.language, one.execution.stdout) == ("json", "a = 1")
    assert '"path": "a.py"' in one.code
    assert "is_file_update" in two.execution.stdout
    assert (three.code, three.language, three.execution.stdout) == ("print(2)", "python", "2")
    assert "encrypted" in four.execution.notes[0]


UNREADABLE: dict[str, tuple[str, Callable[[], Behaviour]]] = {
    "an input that is no object": ("anthropic", lambda: blocks(use("bash_code_execution", "[1, 2]"), text("x"))),  # type: ignore[arg-type]
    "an input that is no JSON": ("anthropic", lambda: blocks(use("bash_code_execution", '{"command": '), text("x"))),  # type: ignore[arg-type]
    "a result without its fields": (
        "anthropic",
        lambda: blocks(
            use("bash_code_execution", {"command": "ls"}),
            result("bash_code_execution", {"type": "bash_code_execution_result"}),
        ),
    ),
    "a call without a status": (
        "responses",
        lambda: responded({"type": "code_interpreter_call", "id": "ci", "code": "1", "container_id": "c"}),
    ),
    "a picture that is no base64": (
        "responses",
        lambda: responded(interpreted("1", {"type": "image", "url": "data:image/png;base64,%%%"}), message("x")),
    ),
    "an outcome without its name": (
        "gemini",
        lambda: generated({"executableCode": {"code": "1"}}, {"codeExecutionResult": {"output": "x"}}, "x"),
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
async def test_what_does_not_follow_the_protocol_is_an_outage(box: SandboxServer, store: MediaStore, case: str) -> None:
    name, says = UNREADABLE[case]
    box.will(says())
    with pytest.raises(ModelLostError) as caught:
        await asked(box, store, name)
    assert len(box.bodies) == 2
    assert CANARY not in str(caught.value)
    assert box.files == box.containers == {}  # nothing is left there


async def test_results_and_calls_without_each_other_are_said(box: SandboxServer, store: MediaStore) -> None:
    box.will(blocks(bash_result("1", at=7), use("bash_code_execution", {"command": "ls"}, 8), text("x")))
    alone, open_ = (await asked(box, store, "anthropic")).hosted
    assert alone.execution.status is Status.OK
    assert "alone" in alone.execution.notes[0]
    assert open_.execution.status is Status.LOST
    box.will(generated({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}, drawn(png()), "x"))
    [alone] = (await asked(box, store, "gemini")).hosted
    assert (alone.code, len(alone.execution.pictures)) == ("", 1)
    box.will(responded(interpreted(None, status="incomplete"), message("x")))
    [cut] = (await asked(box, store, "responses")).hosted
    assert cut.execution.status is Status.LOST
    assert "incomplete" in (cut.execution.traceback or "")
    assert "does not tell the code" in cut.execution.notes[0]


async def test_gemini_pairs_results_by_id(box: SandboxServer, store: MediaStore) -> None:
    first, done_first = ran("one", "1", id="a")
    second, done_second = ran("two", "2", "OUTCOME_FAILED", id="b")
    box.will(generated(first, second, done_second, done_first, "x"))
    one, two = (await asked(box, store, "gemini")).hosted
    assert (one.execution.stdout, two.execution.stderr) == ("1", "2")
    assert (one.execution.status, two.execution.status) == (Status.OK, Status.ERROR)


async def test_pictures_that_cannot_be_had_are_noted(box: SandboxServer, store: MediaStore) -> None:
    url = {"type": "image", "url": "https://files.example/plot.png"}
    box.leaves = {"/mnt/data/kept.png": b"no picture", "/mnt/data/gone.png": png()}
    box.withheld = {"cfile_1"}
    box.will(responded(interpreted("plot()", url), message("x")))
    [call] = (await asked(box, store, "responses")).hosted
    assert call.execution.pictures == ()
    notes = " ".join(call.execution.notes)
    assert all(word in notes for word in ("https://files.example", "gone.png could not be fetched", "cannot be read"))


async def test_many_files_are_not_fetched_without_end(box: SandboxServer, store: MediaStore) -> None:
    box.leaves = {f"/mnt/data/{number}.txt": b"x" for number in range(40)}
    [call] = (await asked(box.will(responded(interpreted("x"), message("x"))), store, "responses")).hosted  # type: ignore[arg-type]
    assert len(call.execution.files) == 32
    assert call.execution.notes == ("8 more files were left in the sandbox and not fetched.",)


@pytest.mark.parametrize("name", ["responses", "anthropic"])
async def test_what_cannot_be_deleted_is_a_warning(
    box: SandboxServer, store: MediaStore, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    box.undeletable = True
    box.files["file_out"] = ("crop.png", png())
    with caplog.at_level(logging.WARNING, "saccade.models.hosted"):
        answer = await asked(box.will(said(name)), store, name)  # type: ignore[arg-type]
    assert answer.text.endswith("<answer>red</answer>")
    assert "could not be deleted" in caplog.text


@pytest.mark.parametrize("name", MAKERS)
async def test_a_try_that_broke_begins_anew_in_a_new_sandbox(box: SandboxServer, store: MediaStore, name: str) -> None:
    box.files["file_out"] = ("crop.png", png())
    box.will(status(529 if name == "anthropic" else 503), said(name))
    answer = await asked(box, store, name)
    assert len(answer.hosted) == 1
    if name == "responses":
        assert [what for what, _ in box.seen] == ["POST", "DELETE", "POST", "DELETE"]
        used = [body["tools"][0]["container"] for body in box.bodies]
        assert used[0] != used[1]


async def test_an_answer_that_never_ends_leaves_no_container(box: SandboxServer, store: MediaStore) -> None:
    box.will(stalled(box, ""))
    with pytest.raises(ModelLostError, match="did not finish"):
        await asked(box, store, "responses", tries=1, seconds=0.3, on_text=lambda piece: None)
    assert box.containers == {}


async def test_every_request_is_heard(box: SandboxServer, store: MediaStore) -> None:
    exchanges: list[Exchange] = []
    box.files["file_out"] = ("crop.png", png())
    with heard(exchanges.append):
        await asked(box.will(said("anthropic")), store, "anthropic")  # type: ignore[arg-type]
    paths = [exchange.path for exchange in exchanges]
    assert paths[:2] == ["/v1/files", "/v1/messages"]
    assert "/v1/files/file_out/content" in paths
    assert b"image_0.png" in exchanges[0].sent
    assert all(CANARY.encode() not in exchange.sent for exchange in exchanges)


async def test_without_a_store_or_a_sandbox_the_request_is_refused(box: SandboxServer) -> None:
    for name, make in MAKERS.items():
        model = make(endpoint(box.url + PATHS[name], Waits(), model="served"))
        with pytest.raises(ModelRefusedError, match="MediaStore"):
            await model.complete(ask("What?", hosted=True), Media())
        await model.close()
    chat = OpenAIModel(endpoint(box.url + "/v1"), api_key="k")
    with pytest.raises(ModelRefusedError, match="no sandbox of its own"):
        await chat.complete(ask("What?", hosted=True), Media())
    await chat.close()
    assert box.seen == []


def test_a_call_is_read_back_as_it_was(store: MediaStore) -> None:
    from saccade.record.codec import dumps, loads

    call = HostedCall.model_validate({"tool": "x", "code": "1", "execution": {"status": "lost"}})
    assert loads(dumps(call), HostedCall) == call
