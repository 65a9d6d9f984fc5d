"""`saccade serve`: tokens, refusals, and real servers with a script and with the bundled model."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image
from tests.plugins.serve.agents import asking

from saccade.cli.main import main
from saccade.cli.web import serve_app
from saccade.errors import SettingsError, UnavailableError
from saccade.media.store import MediaStore
from saccade.plugins.serve import cli
from saccade.plugins.worlds import cli as worlds_cli
from saccade.plugins.worlds.cli import centre, draw_street, failures, steps_for
from saccade.record.codec import read_lines
from saccade.record.content import ImagePart
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory

TOKEN = "0123456789abcdef0123456789abcdef"


def test_only_loopback_does_without_a_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cli.find_token(None, "127.0.0.1") is None
    for host in ("0.0.0.0", "::", "192.168.1.5"):
        with pytest.raises(SettingsError, match="token"):
            cli.find_token(None, host)
    (tmp_path / "token").write_text(TOKEN)
    assert cli.find_token(tmp_path / "token", "0.0.0.0") == TOKEN
    monkeypatch.setenv(cli.TOKEN_VARIABLE, TOKEN)
    assert cli.find_token(None, "127.0.0.1") == TOKEN


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--model", "opnai:x"], "no provider"),
        (["--set", "turns=3"], "turns"),
        (["--set", "media.allow_urls=true"], "--allow-urls"),
        (["--settings", "wrong.toml"], "[ask] and [serve]"),
        (["--dialect", "pyvison"], "pyvision"),
        (["--model", "vllm:m@http://me:hidden-word@127.0.0.1:1/v1"], "a user or a password"),
    ],
)
def test_what_cannot_work_is_refused_before_it_listens(
    options: list[str], word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.toml").write_text("[other]\n")
    Path("script.json").write_text('["x"]')
    model = [] if "--model" in options else ["--model", "scripted:script.json"]
    assert main(["serve", *model, *options, "--port", "0"]) == 2
    said = capsys.readouterr().err
    assert word in said
    assert "hidden-word" not in said


@contextmanager
def running(*options: str, **environment: str) -> Iterator[tuple[str, str]]:
    command = [sys.executable, "-c", "import sys; from saccade.cli.main import main; sys.exit(main())", "serve"]
    server = subprocess.Popen(
        [*command, "--port", "0", *options],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, server.communicate()[1]
        yield line.split()[2], line
    finally:
        server.send_signal(signal.SIGINT)
        out, errors = server.communicate(timeout=250)
    assert server.returncode in (0, 130), errors
    assert TOKEN not in line + out + errors
    assert "Traceback" not in errors, errors


@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux")
def test_a_script_is_served_with_a_token_and_ends_cleanly(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps(["<answer>\n\\boxed{a}\n</answer>"]))
    name = f"scripted:{tmp_path / 'script.json'}"
    with running("--model", name, SACCADE_SERVE_TOKEN=TOKEN) as (url, line):
        assert name in line
        assert httpx.get(f"{url}/models").status_code == 401
        assert "Content-Security-Policy" in httpx.get(url.removesuffix("v1")).text
        body = {"model": name, "messages": asking()}
        answer = httpx.post(f"{url}/chat/completions", json=body, headers={"authorization": f"Bearer {TOKEN}"})
        assert answer.json()["choices"][0]["message"]["content"] == "a"


@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux")
@pytest.mark.slow
def test_without_a_model_the_bundled_one_answers(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    openai = pytest.importorskip("openai")
    import base64

    from PIL import Image, ImageDraw

    picture = Image.new("RGB", (200, 120), "white")
    draw = ImageDraw.Draw(picture)
    for left in (20, 80, 140):
        draw.ellipse((left, 40, left + 40, 80), outline="black", width=3)
    picture.save(tmp_path / "circles.png")
    url = f"data:image/png;base64,{base64.b64encode((tmp_path / 'circles.png').read_bytes()).decode()}"
    with running() as (address, _), openai.OpenAI(base_url=address, api_key="any", timeout=240) as client:
        assert [model.id for model in client.models.list()] == ["tiny"]
        chat = client.chat.completions.create(
            model="tiny", messages=asking("How many circles are in the picture?", url), stream=True
        )
        chunks = list(chat)
        assert chunks[-1].choices[0].finish_reason in ("stop", "length")
        assert chunks[-1].saccade["turns"] >= 1


def test_a_server_runs_on_the_quick_loop(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("uvloop")
    loops = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        loops.append(type(asyncio.get_running_loop()).__module__)
        await send({"type": "lifespan.startup.failed", "message": "seen enough"})

    try:
        with pytest.raises(SystemExit):  # uvicorn's, for one that cannot start
            serve_app(application, "127.0.0.1", 0, "{url}")
    finally:
        gc.unfreeze()
    assert loops == ["uvloop"]
    assert "seen enough" in capfd.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_that_is_taken_is_refused_in_one_line(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"nobody can be served at {host}:{port}: .*in use.* --port"):
            serve_app(None, host, port, "{url}")


def test_a_task_is_shown_without_what_a_terminal_would_obey(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (60, 40)).save(tmp_path / "a.png")
    question = "What\x1b]0;owned\x07 \x1b[2J is \u202etxt.exe \U000e0041here? \u2764\ufe0f"
    row = {"id": "t\x1b[1m", "image": "a.png", "question": question, "answer": "a\x9bb"}
    (tmp_path / "questions.jsonl").write_text(json.dumps(row), encoding="utf-8")
    assert main(["tasks", "show", "questions.jsonl"]) == 0
    printed = capsys.readouterr().out
    assert main(["tasks", "sample", "questions.jsonl", "--out", "page.html"]) == 0
    for text in (printed, (tmp_path / "page.html").read_text(encoding="utf-8")):
        assert not set(text) & set("\x1b\x07\x9b\u202e\U000e0041")
        assert "\\u202etxt.exe" in text
        assert "\u2764\ufe0f" in text


def test_list_names_worlds_and_knobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worlds", "list", "--knobs"]) == 0
    printed = capsys.readouterr().out
    assert "nested-squares@1" in printed
    assert "fewest = 2" in printed


def test_sample_writes_tasks_whose_media_can_be_opened(tmp_path: Path) -> None:
    out = tmp_path / "squares"
    arguments = ["--n", "3", "--split", "test", "--start", "5", "--set", "most=3", "--out", str(out)]
    assert main(["worlds", "sample", "nested-squares", *arguments]) == 0
    tasks = list(read_lines(out / "tasks.jsonl", Task))
    assert [task.id for task in tasks] == [f"nested-squares@1/test/{index}" for index in (5, 6, 7)]
    assert all(task.answer in ("2", "3") for task in tasks)
    store = MediaStore(out / "media")
    for task in tasks:
        part = task.media[0].part
        assert isinstance(part, ImagePart)
        shown = out / "pictures" / f"{task.id}_image_0.png".replace("/", "_").replace("@", "-")
        assert Image.open(shown).convert("RGB").tobytes() == store.open(part).decode().convert("RGB").tobytes()


def test_sampling_again_gives_the_same_files(tmp_path: Path) -> None:
    for _ in range(2):
        assert main(["worlds", "sample", "maze", "--n", "2", "--out", str(tmp_path / "maze")]) == 0
    other = tmp_path / "other"
    assert main(["worlds", "sample", "maze", "--n", "2", "--out", str(other)]) == 0
    assert (other / "tasks.jsonl").read_bytes() == (tmp_path / "maze" / "tasks.jsonl").read_bytes()


def test_sheet_is_a_picture(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "sheet.png"
    assert main(["worlds", "sheet", "spot-difference", "--n", "5", "--out", str(target)]) == 0
    with Image.open(target) as sheet:
        assert sheet.width > 4 * 400
        # The gold boxes are drawn in one colour that the worlds do not use.
        assert (255, 40, 200) in {colour for _, colour in sheet.convert("RGB").getcolors(1 << 24) or ()}


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (3, 3), (1, 100), (640, 481)])
def test_centre_is_never_empty(size: tuple[int, int]) -> None:
    left, top, right, bottom = centre(Image.new("L", size))
    assert 0 <= left < right <= size[0]
    assert 0 <= top < bottom <= size[1]


def test_steps_compile() -> None:
    steps = steps_for((1, 2, 3, 4))
    for step in steps:
        compile(step.code, "cell", "exec")
    assert [step.fails for step in steps] == [False, False, False, True, False]


def test_a_turn_that_does_not_do_its_work_is_found() -> None:
    steps = steps_for((0, 0, 2, 2))
    nothing = Trajectory(id="t", task=Task(id="t", question="?"))
    assert failures(nothing, steps) == [1, 2, 3, 4, 5, 6]


@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")
def test_the_demo_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    photo = tmp_path / "photo.jpg"
    draw_street().picture.resize((1600, 1200)).save(photo)
    for _ in range(2):
        assert main(["demo", "--out", str(out), "--image", str(photo)]) == 0
        assert "reading is known: False" in capsys.readouterr().out
    first, second = read_lines(out / "trajectories.jsonl", Trajectory)
    assert (first.id, second.id) == ("demo#0", "demo#1")
    assert "What is in the middle of the picture?" in (out / "index.html").read_text(encoding="utf-8")
    assert failures(first.model_copy(update={"turns": first.turns[1:]}), steps_for((0, 0, 2, 2))) != []


def test_everything_that_is_missing_is_named_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnavailableError) as caught:
        asyncio.run(worlds_cli.play_tiny(tmp_path))
    assert str(caught.value) == "not installed: `torch`, `transformers`. Run: pip install 'saccade-vlm[local]'"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")
def test_the_small_model_plays_in_the_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worlds_cli, "FAMILIES", {"circles": worlds_cli.FAMILIES["touching circles"]})
    monkeypatch.setattr(worlds_cli, "TASKS", 1)
    for number in range(2):
        assert main(["demo", "--out", str(tmp_path)]) == 0
        shown = capsys.readouterr().out
        assert "saccade-tiny on tasks" in shown
        assert len(list(read_lines(tmp_path / f"tiny-{number}" / "circles" / "trajectories.jsonl", Trajectory))) == 1
    street = next(item for item in read_lines(tmp_path / "trajectories.jsonl", Trajectory))
    assert street.answer == "MARKET LANE / open 7-19 h"
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "circles" in page
