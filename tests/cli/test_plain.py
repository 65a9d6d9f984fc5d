"""What is printed is printed whole: brackets, errors in few lines."""

from __future__ import annotations

import ast
import json
import re
from io import StringIO
from pathlib import Path

import pytest
from PIL import Image
from rich.table import Table

import saccade
from saccade.cli.main import main
from saccade.cli.output import error_text, plain_column, plain_console

SOURCE = Path(saccade.__file__).parent
HINT = re.compile(r"saccade\[[a-z,]+\]")


def hints() -> list[tuple[str, str]]:
    found = [(path, text) for path in SOURCE.rglob("*.py") for text in HINT.findall(path.read_text(encoding="utf-8"))]
    return sorted({(str(path.relative_to(SOURCE)), text) for path, text in found})


def test_no_install_hint_loses_its_extra() -> None:
    assert len(hints()) > 10
    page = StringIO()
    console = plain_console(file=page, width=200)
    table = Table("hint")
    for _, hint in hints():
        console.print(f"Run: pip install '{hint}'", style="yellow")
        table.add_row(hint)
    console.print(table)
    with console.status("x"):
        pass
    for _, hint in hints():
        assert page.getvalue().count(hint) >= 2, hint
    assert plain_column("{task.description}").markup is False


def test_every_console_of_the_commands_prints_brackets() -> None:
    """rich's own take them for styles, so none is made but in `output`."""
    for path in (SOURCE / "cli").glob("*.py"):
        if path.name == "output.py":
            continue
        called = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {func.id for func in called if isinstance(func, ast.Name)}
        assert not names & {"Console", "TextColumn"}, path.name


def test_an_error_has_three_lines_and_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert error_text("one") == "one"
    assert error_text("a:\n  b\n  c\n  d\n\n  e") == "a:\n  b\n  c; d; e"
    mistakes = [f"--set=sampling.t{number}=1" for number in range(5)]
    assert main(["ask", "x.png", "What?", "--model", "scripted:none.json", *mistakes]) == 2
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == 3
    assert all(f"sampling.t{number}" in "\n".join(printed) for number in range(5))


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
