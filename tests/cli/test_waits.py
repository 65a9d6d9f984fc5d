"""The commands against a server that lets them wait, refuses, or answers in prose: what a person sees of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from tests.models.wire_server import WireServer, chat, status

from saccade.cli.main import main
from saccade.record.codec import read_lines
from saccade.record.trajectory import StopReason, Trajectory

QUICK = ("--set", "retry.first_seconds=0.01")


@pytest.fixture
def photo(tmp_path: Path) -> str:
    Image.new("RGB", (40, 30), "red").save(tmp_path / "photo.png")
    return str(tmp_path / "photo.png")


def at(server: WireServer, provider: str = "compatible") -> str:
    return f"{provider}:m@{server.url}/v1"


def test_waits_are_on_the_screen_with_their_reason(
    server: WireServer, photo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will(status(429, "slow down"), status(503, "busy"), chat("<answer>\\boxed{red}</answer>"))
    assert main(["ask", photo, "Which colour?", "--model", at(server), *QUICK]) == 0
    printed = capsys.readouterr().err
    assert "is asked in the dialect pyvision: the default" in printed
    assert "asks for a pause (429): slow down. Trying again in 0.0 s (2 of 6)." in printed
    assert "failed (503): busy. Trying again in 0.0 s (3 of 6)." in printed


@pytest.mark.parametrize("model", ["gpt-4.1", "opnai:gpt-4.1", "openai:gpt-99"])
def test_nothing_is_said_of_the_dialect_before_a_run_begins(
    photo: str, tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    row = json.dumps({"id": "a", "question": "Which?", "answer": "red", "image": photo})
    (tmp_path / "tasks.jsonl").write_text(row + "\n", encoding="utf-8")
    for command in (
        ["ask", photo, "Which?", "--model", model],
        ["eval", str(tmp_path / "tasks.jsonl"), "--model", model, "--out", str(tmp_path / "run")],
    ):
        assert main(command) in (2, 3)
        printed = capsys.readouterr()
        assert "dialect" not in printed.err + printed.out
        assert ("Write openai:gpt-4.1." in printed.err) is (model == "gpt-4.1")


def test_tries_are_a_setting_and_the_advice_names_it(
    server: WireServer, photo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will(status(500, "oh"))
    assert main(["ask", photo, "Which colour?", "--model", at(server), *QUICK, "--set", "retry.tries=2"]) == 3
    printed = "".join(capsys.readouterr())
    assert len(server.bodies) == 2
    assert "Tried 2 times; gave up. Try again later, or raise retry.tries." in " ".join(printed.split())
    assert main(["ask", photo, "Which colour?", "--model", at(server), "--set", "retry.trys=2"]) == 2
    assert "tries" in capsys.readouterr().err


def test_prose_costs_four_requests_and_says_what_to_try(
    server: WireServer, photo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will(chat("I think the sign says EXIT 42."))
    out = tmp_path / "run"
    asked = ["ask", photo, "What does it say?", "--model", at(server), "--out", str(out)]
    assert main(asked) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert len(server.bodies) == 4
    assert "the model wrote 3 turns in a row without an action: it does not follow the dialect pyvision" in printed
    assert "Try --dialect native (for an API with function calls) or direct." in printed
    [kept] = read_lines(out / "trajectories.jsonl", Trajectory)
    assert (kept.stop, kept.answer) == (StopReason.NO_ACTION, None)
    assert "4 turns in a row" in kept.stop_detail


def test_hosted_models_are_asked_by_function_calls_and_may_answer_in_prose(
    server: WireServer, photo: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-1")
    server.will(chat("I think the sign says EXIT 42."))
    asked = ["ask", photo, "What does it say?", "--model", at(server, "openai"), "--json"]
    assert main(asked) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == "I think the sign says EXIT 42."
    assert [tool["function"]["name"] for tool in server.bodies[0]["tools"]] == ["python"]


def test_the_first_failure_of_an_evaluation_is_printed_and_the_kinds_at_its_end(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will(status(404, "no model of that name"))
    evaluated = ["eval", "nested-squares", "--n", "3", "--out", str(tmp_path / "run"), "--model", at(server)]
    assert main([*evaluated, "--workers", "16"]) == 1
    printed = capsys.readouterr()
    assert printed.err.count("no model of that name") == 1
    assert "failed (model_refused): compatible:m refused the request (404)" in printed.err
    assert "3 samples failed (model_refused 3)" in printed.out


def test_prose_in_an_evaluation_is_said_once(
    server: WireServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will(chat("Several."))
    assert main(["eval", "nested-squares", "--n", "2", "--out", str(tmp_path / "run"), "--model", at(server)]) == 0
    printed = capsys.readouterr()
    assert len(server.bodies) == 8
    assert printed.err.count("does not follow the dialect pyvision") == 1
    assert "2 samples ended with turns without an action" in printed.out


def test_the_right_form_of_an_address_is_named(
    server: WireServer, photo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = server.url.removeprefix("http://")
    assert main(["ask", photo, "What?", "--model", f"compatible:ok@{bare}"]) == 2
    assert f"Write compatible:ok@http://{bare}/v1" in capsys.readouterr().err
    assert server.bodies == []
