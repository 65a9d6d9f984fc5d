"""docs/extending.md as it stands: every file of it is written, every command of it is run, in their order."""

from __future__ import annotations

import io
import json
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from PIL import Image

from saccade.cli.main import main
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n# (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = {name: (f"# {name}\n" if language != "text" else "") + body for language, name, body in BLOCKS}
COMMANDS = re.findall(r"^    ((?:saccade|python) .*)$", PAGE, re.MULTILINE)


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


def only(run: Path) -> Trajectory:
    (trajectory,) = read_lines(run / "trajectories.jsonl", Trajectory)
    return trajectory


def test_every_command_runs_and_the_parts_do_their_work(folder: Path) -> None:
    for command in COMMANDS:
        program, *arguments = shlex.split(command)
        output = io.StringIO()
        with redirect_stdout(output), redirect_stderr(output):
            if program == "python":
                runpy.run_path(arguments[0], run_name="__main__")
            else:
                assert main(arguments) == 0, f"{command}\n{output.getvalue()}"
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
    played = list(read_lines(folder / "runs/patch-experts/trajectories.jsonl", Trajectory))
    assert [item.answer for item in played] == [item.task.answer for item in played]
    assert all(item.provenance.model == "patch-expert" and item.turns[0].execution for item in played)
    assert "margin = 8" in (folder / "runs/patch-experts/settings.toml").read_text()
    left = [json.loads(line) for line in (folder / "runs/patch-left/results.jsonl").read_text().splitlines()]
    assert {row["correct"] for row in left} == {0.0, 1.0}
    assert len(list(read_lines(folder / "runs/short/trajectories.jsonl", Trajectory))) == 4
    assert "most = 5" in (folder / "runs/short/pipeline.toml").read_text()
    (row,) = (json.loads(line) for line in (folder / "runs/notes/results.jsonl").read_text().splitlines())
    assert (row["gold"], row["correct"]) == ("red", 1.0)
    step = json.loads((folder / "runs/rl/metrics.jsonl").read_text().splitlines()[1])
    assert step["rollouts"] == 4
    assert "reward/seen" in step


IN_A_PROCESS = """
import json
from saccade.cli.list import parts_of
from saccade.models.registry import load_model
print(json.dumps({kind: [str(part.id) for part in parts_of(kind) if part.source == "my-saccade-parts 0.1"
    and not part.problem] for kind in KINDS_OF_THE_PACKAGE}))
assert load_model("parrot:9").name == "parrot:9"
from saccade.cli.main import main, plugged
assert plugged()["blink"].help == "Say how often."
assert main(["blink", "3"]) == 0
"""
GROUPS = tomllib.loads(FILES["pyproject.toml"])["project"]["entry-points"]
KINDS = [group.removeprefix("saccade.") for group in GROUPS if group != "saccade.commands"]
A_WORLD_WITH_ITS_EXPERT = """
assert main(["synth", "red-patch", "--dialect", "codedance", "--n", "2", "--out", "run"]) == 0
assert main(["eval", "red-patch", "--model", "always-left", "--dialect", "codedance", "--n", "2", "--out", "left"]) == 0
"""


def test_the_package_registers_every_part(folder: Path, tmp_path: Path) -> None:
    """By its metadata as an installer writes them, beside the modules."""
    project = tomllib.loads(FILES["pyproject.toml"])
    for name in project["tool"]["setuptools"]["py-modules"]:
        (tmp_path / f"{name}.py").write_text(FILES[f"{name}.py"], encoding="utf-8")
    info = tmp_path / "my_saccade_parts-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-saccade-parts\nVersion: 0.1\n")
    lines = [f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in parts.items()) for group, parts in GROUPS.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    code = f"import sys; sys.path.append({str(tmp_path)!r})\nKINDS_OF_THE_PACKAGE = {KINDS}{IN_A_PROCESS}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    listed, blinked, *_ = run.stdout.splitlines()
    assert blinked == "3 times"
    found = json.loads(listed)
    assert found == {kind: [f"{name}@1" for name in GROUPS[f"saccade.{kind}"]] for kind in KINDS}


@pytest.mark.slow
def test_the_package_is_built_and_installed(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name, text in FILES.items():
        (project / name).write_text(text, encoding="utf-8")
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(project)], check=True)
    code = f"import sys; sys.path.append({str(target)!r})\nKINDS_OF_THE_PACKAGE = {KINDS}{IN_A_PROCESS}"
    code += A_WORLD_WITH_ITS_EXPERT
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    found = json.loads(run.stdout.splitlines()[0])
    assert found == {kind: [f"{name}@1" for name in GROUPS[f"saccade.{kind}"]] for kind in KINDS}
    makers = {item.provenance.model for item in read_lines(tmp_path / "run/trajectories.jsonl", Trajectory)}
    assert makers == {"patch-expert"}


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_every_process_of_a_training_finds_the_parts(folder: Path) -> None:
    (command,) = (command for command in COMMANDS if command.startswith("saccade rl"))
    arguments = shlex.split(command.replace("runs/rl", "runs/rl-two"))[1:]
    run = [sys.executable, "-m", "saccade", *arguments, "--processes", "2"]
    subprocess.run(run, check=True, cwd=folder, capture_output=True)
    assert (folder / "runs/rl-two/model").is_dir()
