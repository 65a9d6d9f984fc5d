import webbrowser
from pathlib import Path

import pytest
from tests.report.cases import Scene, answered

from saccade.cli.main import main
from saccade.record.codec import dumps, write_lines


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
