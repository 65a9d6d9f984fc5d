"""The commands of an evaluation, from the first sample to the table."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import pytest
from tests.evals.support import write_tasks
from tests.report.cases import Scene, answered

from saccade.cli.eval import resolve
from saccade.cli.main import main
from saccade.record.codec import dumps, read_lines, write_lines
from saccade.record.content import ImagePart
from saccade.record.trajectory import Trajectory

WORLD = "nested-squares"


def evaluate(out: Path, *more: str) -> int:
    return main(["eval", WORLD, "--n", "3", "--out", str(out), "--workers", "2", *more])


def test_a_baseline_with_and_without_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools, direct = tmp_path / "tools", tmp_path / "direct"
    assert evaluate(tools, "--model", "solver", "--dialect", "codedance") == 0
    assert "| nested-squares@1 |" in capsys.readouterr().out
    assert evaluate(tools, "--model", "solver", "--dialect", "codedance") == 0
    assert "3 were there before" in capsys.readouterr().out
    assert evaluate(direct, "--model", "solver", "--dialect", "direct") == 0
    capsys.readouterr()
    assert main(["compare", str(tools), str(direct), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["wins"], found["losses"], len(found["differing"])) == (3, 0, 3)
    assert main(["compare", str(tools), str(direct)]) == 0
    assert "difference +100.0 points" in capsys.readouterr().out
    assert evaluate(tools, "--model", "solver", "--dialect", "pyvision") == 2
    assert 'dialect: "codedance" -> "pyvision"' in capsys.readouterr().err


def test_shards_grades_and_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in ("1", "2"):
        assert evaluate(tmp_path / number, "--model", "solver", "--dialect", "direct", "--shard", f"{number}/2") == 0
    merged = tmp_path / "merged"
    assert main(["merge", str(tmp_path / "1"), str(tmp_path / "2"), "--out", str(merged)]) == 0
    assert "2 shards" in capsys.readouterr().out
    assert main(["regrade", str(merged), "--grader", "text"]) == 0
    assert "0 of 3 scores changed" in capsys.readouterr().out
    judge = tmp_path / "judge.json"
    judge.write_text(json.dumps(['{"score": 1}', "no", "no", "no", '{"score": 0}']))
    assert main(["regrade", str(merged), "--judge", f"scripted:{judge}", "--headline", "judge"]) == 0
    printed = capsys.readouterr().out
    assert "judge: 2 verdicts, 1 answers without one (malformed 1)" in printed
    assert "2 of 3 scores changed" in printed
    assert main(["regrade", str(merged), "--headline", "nobody"]) == 2
    capsys.readouterr()
    assert main(["export", str(merged), "--format", "csv"]) == 0
    assert (merged / "samples.csv").read_text().count("\n") == 4
    assert main(["export", str(merged), "--out", str(tmp_path / "a.doc")]) == 2


def test_an_outage_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.json"
    script.write_text('["<answer>4</answer>"]')
    assert evaluate(tmp_path / "run", "--model", f"scripted:{script}", "--dialect", "direct") == 1
    message = capsys.readouterr().out
    assert "2 samples failed" in message
    assert "1 samples played" in message
    assert "model_refused" in (tmp_path / "run" / "failures.jsonl").read_text()


def test_wrong_names_are_told_before_anything_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more, message in (
        ((), "no model is named"),
        (("--model", "solver", "--dialect", "pyvison"), "pyvision"),
        (("--model", "solver", "--grader", "relaxd"), "relaxed"),
        (("--model", "solver", "--set", "sampling.temprature=1"), "temperature"),
        (("--model", "solver", "--shard", "3/2"), "  shard 3/2: shards are 1/2 to 2/2\n"),
        (("--model", "solver", "--set", "knobs.nested-squares.fewst=1"), "fewst: no such setting"),
        (("--model", "solver", "--set", "knobs.maze.pixels=1"), "knobs are given for maze"),
        (("--model", "compatible:m@http://127.0.0.1:9/v1", "--set", "sampling.top_k=5"), "not know sampling.top_k"),
    ):
        assert evaluate(tmp_path / "run", *more) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_settings_come_from_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "eval.toml"
    file.write_text('model = "anthropic:some"\nsources = ["maze"]\nn = 5\n')
    found, notices = resolve(file, ["n=7"], tmp_path / "run")
    assert (found.n, found.seeded, found.dialect) == (7, False, "native")
    assert any("anthropic:some knows no seed" in notice for notice in notices)


def test_another_dialect_is_named_before_a_smaller_n(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert evaluate(run, "--model", "solver", "--dialect", "direct") == 0
    saved = (run / "settings.toml").read_text()
    capsys.readouterr()
    assert evaluate(run, "--model", "solver", "--dialect", "codedance", "--n", "1") == 2
    assert "dialect:" in capsys.readouterr().err
    assert evaluate(run, "--model", "solver", "--dialect", "direct", "--n", "1") == 2
    assert "may grow and not shrink" in capsys.readouterr().err
    assert (run / "settings.toml").read_text() == saved


def test_worlds_have_knobs(tmp_path: Path) -> None:
    pictures = []
    for name, more in (("a", ()), ("b", ("--set", "knobs.maze.pixels=60"))):
        command = ["eval", "maze", "--n", "1", "--model", "solver", "--dialect", "direct", *more]
        assert main([*command, "--out", str(tmp_path / name)]) == 0
        (played,) = read_lines(tmp_path / name / "trajectories.jsonl", Trajectory)
        part = played.task.media[0].part
        assert isinstance(part, ImagePart)
        pictures.append(part.sha256)
    assert pictures[0] != pictures[1]


def test_a_split_without_a_world_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = tmp_path / "tasks"
    assert main(["worlds", "sample", "maze", "--n", "1", "--out", str(tasks)]) == 0
    assert main(["eval", str(tasks), "--split", "train", "--model", "solver", "--out", str(tmp_path / "run")]) == 2
    assert "no source is one" in capsys.readouterr().err


NAMES = {"confidence", "errors", "faithfulness", "tokens", "tool_use"}


@pytest.fixture(scope="module")
def a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    script = folder / "script.json"
    script.write_text(json.dumps(["<answer>0</answer>", "<answer>9</answer>"]))
    tasks = write_tasks(folder / "tasks", 2)
    out = folder / "run"
    given = ["--model", f"scripted:{script}", "--dialect", "direct", "--out", str(out), "--workers", "1"]
    assert main(["eval", str(tasks), *given]) == 0
    return out


def test_all_protocols_without_a_key(a_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocols", str(a_run)]) == 0
    printed = capsys.readouterr().out
    assert "## run: Errors E1 to E6 (VISTA)" in printed
    assert "| run (gold boxes) | 0.0 (0.0–65.8) |" in printed
    assert {file.stem for file in (a_run / "protocols").glob("*.json")} == NAMES
    stored = json.loads((a_run / "protocols" / "faithfulness.json").read_text())
    assert stored["judges"][0]["any_crop"]["of_all"]["no_tool"]["count"] == 2


def test_one_protocol_elsewhere_with_a_judge(a_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replies = tmp_path / "replies.json"
    replies.write_text("[]")
    more = ["--only", "faithfulness", "--judge", f"scripted:{replies}", "--out", str(tmp_path / "found")]
    assert main(["protocols", str(a_run), *more]) == 0
    assert [file.name for file in (tmp_path / "found").glob("*.json")] == ["faithfulness.json"]
    assert "run (model): scripted" in capsys.readouterr().out


def test_wrong_names(a_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more, message in (
        (["--only", "tokns"], "tokens"),
        (["--budget", "qwen"], "no pixel budget"),
        ([str(a_run), "--out", str(tmp_path)], "name one run"),
    ):
        assert main(["protocols", str(a_run), *more]) == 2
        assert message in capsys.readouterr().err
    assert main(["protocols", str(tmp_path)]) == 2
    assert "no run folder" in capsys.readouterr().err


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def refuse(url: str) -> bool:
        raise AssertionError(f"nobody asked to open {url}")

    monkeypatch.setattr(webbrowser, "open", refuse)
    scene = Scene(tmp_path)
    tasks = [scene.task(id=name, question=f"Question of {name}?") for name in ("one", "two")]
    write_lines(tmp_path / "trajectories.jsonl", [scene.episode(answered(), task=task) for task in tasks])
    return tmp_path


def test_a_folder_and_a_file_of_lines(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run)]) == 0
    assert f"2 episodes: {run / 'index.html'}" in capsys.readouterr().out.replace("\n", " ")
    assert main(["show", str(run / "trajectories.jsonl"), "--out", str(run / "page.html")]) == 0
    assert (run / "page.html").read_bytes() == (run / "index.html").read_bytes()
    (run / "folder").mkdir()
    assert main(["show", str(run), "--out", str(run / "folder")]) == 0
    assert (run / "folder" / "index.html").is_file()


def test_one_task(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run), "--task", "two"]) == 0
    page = (run / "index.html").read_text(encoding="utf-8")
    assert "Question of two?" in page
    assert "Question of one?" not in page
    (run / "index.html").unlink()
    assert main(["show", str(run), "--task", "tow"]) == 2
    assert "'two'" in capsys.readouterr().err
    assert not (run / "index.html").exists()


def test_a_torn_line_is_told_and_the_rest_shown(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = run / "trajectories.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    assert main(["show", str(run)]) == 0
    captured = capsys.readouterr()
    assert "cut short" in captured.err
    assert "1 episode:" in captured.out
    assert "cut short" in (run / "index.html").read_text(encoding="utf-8")


def test_nothing_to_show_is_an_error(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run / "nowhere")]) == 2
    assert "is not there" in capsys.readouterr().err
    (run / "trajectories.jsonl").write_text('{"id": 1}\n', encoding="utf-8")
    assert main(["show", str(run)]) == 2
    assert "Line 1" in capsys.readouterr().err


def test_without_the_media_folder_the_page_says_so(run: Path) -> None:
    lines = run / "alone" / "lines.jsonl"
    lines.parent.mkdir()
    scene = Scene(run)
    lines.write_text(dumps(scene.episode(answered())) + "\n", encoding="utf-8")
    assert main(["show", str(lines)]) == 0
    assert "missing" in (run / "alone" / "index.html").read_text(encoding="utf-8")


def test_it_opens_the_page_when_asked(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert main(["show", str(run), "--no-open"]) == 0
    assert main(["show", str(run)]) == 0
    assert not opened, "standard output is no terminal here"
    assert main(["show", str(run), "--open"]) == 0
    assert opened == [(run / "index.html").resolve().as_uri()]
