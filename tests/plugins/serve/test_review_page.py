"""Review over HTTP: what is shown, what a decision does to the disk at once, what is refused, and what is written."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.serve.review_folders import TOKEN, reviewing, run_folder, task_folder

from saccade.cli.main import main
from saccade.errors import SettingsError
from saccade.record.codec import read_lines
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.sft.review import DecisionLog, ReviewItems


def call(
    port: int, path: str, body: object = None, *, token: str = TOKEN, host: str = "127.0.0.1"
) -> tuple[int, bytes, dict[str, str]]:
    connection = HTTPConnection("127.0.0.1", port)
    headers = {"Host": f"{host}:{port}", "X-Token": token}
    data = None if body is None else body if isinstance(body, str) else json.dumps(body)
    connection.request("GET" if body is None else "POST", path, data, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def reply_of(port: int, path: str, body: object = None) -> Any:
    status, text, _ = call(port, path, body)
    assert status == 200, text
    return json.loads(text)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "review.jsonl").read_text().splitlines()]


def test_every_decision_is_on_the_disk_at_once_and_the_review_resumes(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    with reviewing(folder) as port:
        listed = reply_of(port, "/items")
        assert [(item["id"], item["verdict"]) for item in listed["items"]] == [(name, "open") for name in "abc"]
        item = reply_of(port, "/item/0")
        assert (item["question"], item["answer"], item["final"]) == ("What is a?", "5", "5")
        assert item["scores"] == [["correct", 1.0]]
        assert "print(1)" in item["turns"][0]["text"]
        status, data, headers = call(port, f"/media/{item['media'][0]['sha256']}")
        assert (status, headers["content-type"], data[:4]) == (200, "image/png", b"\x89PNG")
        assert reply_of(port, "/item/0", {"verdict": "drop", "note": "blurred"})["decided"] == 1
        assert lines(folder)[0]["note"] == "blurred"
        reply_of(port, "/item/2", {"verdict": "keep", "answer": "7"})
        assert lines(folder)[1]["answer"] == "7"
        reply_of(port, "/item/1", {"verdict": "keep", "answer": "5"})
        assert "answer" not in lines(folder)[2] or lines(folder)[2]["answer"] is None, "as it was: no correction"
        reply_of(port, "/item/0", {"verdict": "open"})
    with (folder / "review.jsonl").open("a") as file:
        file.write('{"id": "a", "verd')  # killed while it wrote
    with reviewing(folder) as port:
        assert [item["verdict"] for item in reply_of(port, "/items")["items"]] == ["open", "keep", "keep"]
        assert reply_of(port, "/item/2")["decision"]["answer"] == "7"


def test_strangers_and_wrong_decisions_are_refused(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    with reviewing(folder) as port:
        for path in ("/", "/items", "/item/0"):
            assert call(port, path, token="")[0] == 403, path
            assert call(port, path, token="secret-tokem")[0] == 403, path
            assert call(port, path, host="attacker.example")[0] == 400, path
        assert call(port, "/item/0", {"verdict": "drop"}, token="")[0] == 403
        assert call(port, f"/item/0?token={TOKEN}", {"verdict": "drop"}, token="")[0] == 403
        sha = reply_of(port, "/item/0")["media"][0]["sha256"]
        assert call(port, f"/media/{sha}", token="")[0] == 403
        for path in ("/media/" + "0" * 64, "/item/9", "/../settings.toml", "/review.py", "/media/../review.jsonl"):
            assert call(port, path)[0] == 404, path
        assert call(port, "http://[")[0] == 400
        for body in (
            "no json",
            "[]",
            "[" * 50_000,
            {"verdict": "burn"},
            {"verdict": "drop", "answer": "x"},
            {"verdict": 1},
        ):
            assert call(port, "/item/0", body)[0] == 400, body
        status, text, _ = call(port, "/item/0", {"verdict": "keep", "question": "Else?"})
        assert (status, b"cannot be corrected" in text) == (400, True)
        assert call(port, "/item/0", "x" * 100_001)[0] == 413
        _, _, headers = call(port, "/")
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
    assert not (folder / "review.jsonl").exists()


def test_what_is_kept_is_a_run_with_corrections_graded_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder(tmp_path)
    with reviewing(folder) as port:
        reply_of(port, "/item/0", {"verdict": "drop"})
        reply_of(port, "/item/2", {"verdict": "keep", "answer": "7"})
    out = tmp_path / "kept"
    assert main(["review", str(folder), "--out", str(out)]) == 0
    assert "1 of 3 kept" in capsys.readouterr().out
    (item,) = read_lines(out / "trajectories.jsonl", Trajectory)
    assert (item.id, item.task.answer) == ("c", "7")
    assert [score.value for score in item.scores if score.name == "correct"] == [1.0]
    assert len(open_tasks([str(out)])) == 1
    assert main(["review", str(folder), "--out", str(tmp_path / "more"), "--undecided", "keep"]) == 0
    assert len(list(read_lines(tmp_path / "more" / "trajectories.jsonl", Trajectory))) == 2


def test_tasks_are_corrected_and_are_a_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = task_folder(tmp_path)
    with reviewing(folder) as port:
        reply_of(port, "/item/0", {"verdict": "keep", "question": "Which colour?", "answer": "dark red"})
        status, text, _ = call(port, "/item/1", {"verdict": "keep", "answer": "q"})
        assert (status, b"none of the choices" in text) == (400, True)
        reply_of(port, "/item/1", {"verdict": "keep", "answer": "y"})
    out = tmp_path / "kept"
    assert main(["review", str(folder), "--out", str(out)]) == 0
    assert "not reviewed yet: 1" in capsys.readouterr().out
    tasks = list(read_lines(out / "tasks.jsonl", Task))
    assert [(task.question, task.answer) for task in tasks] == [("Which colour?", "dark red"), ("A?", "y")]
    assert len(open_tasks([str(out)])) == 2


def test_what_cannot_be_reviewed_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SettingsError, match="saccade tasks write"):
        ReviewItems.open(tmp_path)
    folder = task_folder(tmp_path)
    assert main(["review", str(folder), "--out", str(tmp_path / "out")]) == 2
    assert "was not reviewed" in " ".join(capsys.readouterr().err.split())
    assert len(DecisionLog(folder)) == 0
