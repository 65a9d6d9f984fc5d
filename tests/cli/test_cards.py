from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.tasks.benchmarks.cases import write_jsonl, write_png

from saccade.cli.main import main
from saccade.tasks.benchmarks.registry import card_ids

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_list_names_every_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "list"]) == 0
    printed = capsys.readouterr().out
    assert all(re.search(rf"^{re.escape(name)} ", printed, re.MULTILINE) for name in card_ids())


def test_show_prints_a_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "show", "hrbench-4k"]) == 0
    printed = capsys.readouterr().out
    assert 'id = "hrbench-4k@1"' in printed
    assert "DreamMr/HR-Bench" in printed


def test_show_suggests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "show", "vstra"]) == 2
    assert "vstar" in capsys.readouterr().err


def test_check_counts_and_finds_a_constant_gold_position(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"id": str(n), "image_path": "1.png", "question": "Which?", "answer": "x", "choices": ["x", "y"], "task": "t"}
        for n in range(3)
    ]
    folder = tmp_path / "vista-ai2d"
    write_jsonl(folder / "ai2d_test_vlmgym.json", rows[:0])
    (folder / "ai2d_test_vlmgym.json").write_text(str(rows).replace("'", '"'), encoding="utf-8")
    write_png(folder / "images/1.png")
    assert main(["cards", "check", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "tasks         3  (expected 810, VISTA-Gym, table 5)" in printed
    assert "gold is at    A: 3  (always the same: shuffle the choices)" in printed
    assert main(["cards", "check", str(folder), "--whole"]) == 1


def test_check_says_which_choices_are_shuffled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        write_png(tmp_path / f"vstar/direct_attributes/{name}.jpg")
        text = '{"question": "Which?", "options": ["x", "y"]}'
        (tmp_path / f"vstar/direct_attributes/{name}.json").write_text(text, encoding="utf-8")
    assert main(["cards", "check", str(tmp_path / "vstar")]) == 0
    assert "gold is at    A: 2  (as the source has it; shuffled when played, seed 0)" in capsys.readouterr().out


def test_check_names_broken_rows_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": str(n), "image_path": "absent.png", "question": "Which?", "answer": "x"} for n in range(25)]
    (tmp_path / "chartqa_test_vlmgym.json").write_text(str(rows).replace("'", '"'), encoding="utf-8")
    assert main(["cards", "check", str(tmp_path), "--card", "vista-chartqa"]) == 1
    printed = capsys.readouterr()
    assert "broken rows   25" in printed.out
    assert "row 1, images: there is no file absent.png" in printed.err
    assert "and 5 more" in printed.err


def test_a_missing_folder_of_the_cards_name_is_not_doubled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "check", str(tmp_path / "hrbench-4k")]) == 2
    printed = capsys.readouterr().err
    assert f"there is nothing in {tmp_path / 'hrbench-4k'} " in printed
    assert "hrbench-4k/hrbench-4k" not in printed


def test_check_refuses_a_grader_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "show", "vista-chartqa"]) == 0
    card = tmp_path / "own.toml"
    card.write_text(capsys.readouterr().out.replace('"relaxed@1"', '"relaxd@1"'))
    assert main(["cards", "check", str(tmp_path), "--card", str(card)]) == 2
    assert "relaxd" in capsys.readouterr().err


def test_check_of_a_folder_without_a_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "check", str(tmp_path)]) == 2
    assert "--card" in capsys.readouterr().err


def test_check_says_what_to_download(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "check", str(tmp_path), "--card", "vstar"]) == 2
    printed = capsys.readouterr().err
    assert "hf download craigwu/vstar_bench" in printed
    assert str(tmp_path / "vstar") in printed


def block(language: str) -> str:
    """The document's only code block of a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    return str(found)


def test_a_benchmark_added_as_the_document_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "street-signs.toml").write_text(block("toml"), encoding="utf-8")
    data = tmp_path / "data" / "street-signs"
    data.mkdir(parents=True)
    (data / "questions.jsonl").write_text(block("json"), encoding="utf-8")
    for number in (1, 2, 3):
        write_png(data / f"photos/{number}.jpg")
    assert main(["cards", "check", str(tmp_path / "data"), "--card", str(tmp_path / "street-signs.toml")]) == 0
    printed = capsys.readouterr().out
    assert printed == block("text")
    command = next(line.split() for line in DOCUMENT.splitlines() if line.startswith("    saccade eval street-signs"))
    monkeypatch.chdir(tmp_path)
    assert main(command[1:]) == 0
    assert "| street-signs@1 " in capsys.readouterr().out
