"""docs/extending.md as it stands: every file of it is written, every command of it is run, in their order."""

from __future__ import annotations

import io
import json
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from PIL import Image

from saccade.cli.main import main
from saccade.models.tiny import save_tiny
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n# (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = {name: (f"# {name}\n" if language != "text" else "") + body for language, name, body in BLOCKS}
COMMANDS = re.findall(r"^    ((?:saccade|python) .*)$", PAGE, re.MULTILINE)
PACKAGED = "saccade list tools"


def test_every_block_is_a_file() -> None:
    assert len(BLOCKS) == len(re.findall(r"^```\w", PAGE, re.MULTILINE))
    assert len(FILES) == len(BLOCKS)
    assert len(COMMANDS) > 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the files of the page, in which its commands run; the import system is as before afterwards."""
    root = tmp_path_factory.mktemp("extending")
    for name, text in FILES.items():
        (root / name).write_text(text, encoding="utf-8")
    Image.new("RGB", (64, 32), "red").save(root / "photo.png")
    save_tiny(root / "CHECKPOINT", "qwen2_5_vl")
    before = list(sys.path)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        yield root
    sys.path[:] = before


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> dict[str, tuple[int, str]]:
    """Command -> exit code, and what it printed on both streams."""
    found = {}
    for command in COMMANDS:
        if command == PACKAGED:
            continue
        program, *arguments = shlex.split(command)
        stream = io.StringIO()
        with redirect_stdout(stream), redirect_stderr(stream):
            if program == "python":
                runpy.run_path(arguments[0], run_name="__main__")
                code = 0
            else:
                code = main(arguments)
        found[command] = (code, stream.getvalue())
    return found


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != PACKAGED])
def test_command(command: str, outcomes: dict[str, tuple[int, str]]) -> None:
    code, told = outcomes[command]
    assert code == 0, told


def only(run: Path) -> Trajectory:
    (trajectory,) = read_lines(run / "trajectories.jsonl", Trajectory)
    return trajectory


@pytest.mark.usefixtures("outcomes")
def test_what_the_parts_did(folder: Path) -> None:
    flipped = only(folder / "runs/flip").turns[0].execution
    assert flipped is not None
    assert flipped.status == "ok"
    assert len(flipped.pictures) == 1
    shouted = only(folder / "runs/shout")
    assert shouted.provenance.dialect == "shout@1"
    assert shouted.answer == "wide"
    assert "(64, 32)" in shouted.turns[0].observation.text  # type: ignore[union-attr]
    assert "# sha256 " in shouted.provenance.settings
    grades = [json.loads(line) for line in (folder / "runs/graded/results.jsonl").read_text().splitlines()]
    assert {row["grader"] for row in grades} == {"first_letter.py:FIRST_LETTER:letters=2"}
    assert {row["correct"] for row in grades} == {0.0, 1.0}
    assert json.loads((folder / "runs/patch/protocols/brevity.json").read_text())["characters"]["value"] == 4
    assert len(list(read_lines(folder / "runs/short/trajectories.jsonl", Trajectory))) == 4
    assert "most = 5" in (folder / "runs/short/pipeline.toml").read_text()
    (row,) = (json.loads(line) for line in (folder / "runs/notes/results.jsonl").read_text().splitlines())
    assert (row["gold"], row["correct"]) == ("red", 1.0)
    step = json.loads((folder / "runs/rl/metrics.jsonl").read_text().splitlines()[1])
    assert step["rollouts"] == 4
    assert "reward/seen" in step
