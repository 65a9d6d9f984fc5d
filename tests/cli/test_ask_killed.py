"""`saccade ask` as a process that is killed: what there was is shown, and the same command continues it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image
from tests.models.wire_server import WireServer, chat, then_slow

from saccade.cli.main import main
from saccade.episode.run_folder import unfinished
from saccade.record.codec import read_lines
from saccade.record.trajectory import StopReason, Trajectory

LOOK = "I look.\n<code>\n```python\nwidth = image_clue_0.width\nprint(width)\n```\n</code>"
MORE = "Again.\n<code>\n```python\nprint(width * 10)\n```\n</code>"
ANSWER = "<answer>\n\\boxed{80}\n</answer>"


@pytest.fixture
def command(tmp_path: Path, server: WireServer) -> list[str]:
    Image.new("RGB", (8, 4), "red").save(tmp_path / "photo.png")
    named = ["--model", f"vllm:m@{server.url}/v1", "--out", str(tmp_path / "run")]
    return ["ask", str(tmp_path / "photo.png"), "How wide, ten times?", *named]


def stopped(server: WireServer, command: list[str], number: signal.Signals, requests: int) -> int:
    """The exit code of the command, which gets the signal when the server has heard so many requests."""
    process = subprocess.Popen([sys.executable, "-m", "saccade", *command], stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while len(server.bodies) < requests and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(number)
    return process.wait(30)


def stopped_in_turn_two(server: WireServer, command: list[str], number: signal.Signals) -> int:
    server.will(chat(LOOK), then_slow(server))
    return stopped(server, command, number, 2)


@pytest.mark.slow
def test_kill_shows_what_there_was_and_the_same_command_continues(
    tmp_path: Path, server: WireServer, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert stopped_in_turn_two(server, command, signal.SIGKILL) == -signal.SIGKILL
    (left,) = unfinished(run)
    assert [turn.text for turn in left.trajectory.turns] == [LOOK]
    assert main(["show", str(run), "--no-open"]) == 0
    page = (run / "index.html").read_text(encoding="utf-8")
    assert "The episode had not ended when it was recorded." in page
    assert "image_clue_0.width" in page
    server.will(chat(MORE), chat(ANSWER))
    capsys.readouterr()
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "Continuing an episode that was broken off after turn 1" in printed.out
    assert len(server.bodies) == 2, "the first turn was paid twice"
    (made,) = read_lines(run / "trajectories.jsonl", Trajectory)
    assert [turn.execution and turn.execution.stdout for turn in made.turns] == ["8\n", "80\n", None]
    assert made.answer == "80"
    assert not list(unfinished(run))


@pytest.mark.slow
def test_sigterm_is_as_ctrl_c(tmp_path: Path, server: WireServer, command: list[str]) -> None:
    assert stopped_in_turn_two(server, command, signal.SIGTERM) == 130
    (made,) = read_lines(tmp_path / "run" / "trajectories.jsonl", Trajectory)
    assert (made.stop, [turn.text for turn in made.turns]) == (StopReason.CANCELLED, [LOOK])


@pytest.mark.slow
def test_sigterm_ends_an_evaluation_and_keeps_what_was_played(tmp_path: Path, server: WireServer) -> None:
    run = tmp_path / "run"
    model = ["--model", f"vllm:m@{server.url}/v1", "--dialect", "direct"]
    command = ["eval", "nested-squares", "--n", "3", "--workers", "1", *model, "--out", str(run)]
    server.will(chat("<answer>4</answer>"), then_slow(server))
    assert stopped(server, command, signal.SIGTERM, 2) == 130
    assert len(list(read_lines(run / "trajectories.jsonl", Trajectory))) == 1
    server.will(chat("<answer>4</answer>"))
    assert main(command) == 0
    assert len(list(read_lines(run / "trajectories.jsonl", Trajectory))) == 3
