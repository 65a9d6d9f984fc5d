"""Disks that are full or may not be written: one clear message, no traceback, nothing whole lost, the answer printed.

Each disk is a small tmpfs of the test's own, which only root can mount.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from saccade.cli.main import main
from saccade.record.codec import append_lines, read_lines
from saccade.record.task import Task

ANSWER = "<answer>\n\\boxed{red}\n</answer>"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this user may not mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Leaves no byte."""
    file = disk / "filler"
    with suppress(OSError), file.open("ab", buffering=0) as filler:
        while filler.write(b"x" * 512):
            pass
    return file


def read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


def refused(capsys: pytest.CaptureFixture[str], *command: str, code: int = 3) -> tuple[str, str]:
    """What the command prints, which ends with that code and with a message of at most three lines."""
    capsys.readouterr()
    assert main(list(command)) == code
    out, err = capsys.readouterr()
    message = err[err.index("saccade: ") :]
    assert "Traceback" not in err
    assert message.count("\n") <= 3
    return out, message


def ask(tmp_path: Path, disk: Path) -> list[str]:
    Image.new("RGB", (8, 4), "red").save(tmp_path / "photo.png")
    (tmp_path / "script.json").write_text(json.dumps([ANSWER]))
    named = ["--model", f"scripted:{tmp_path / 'script.json'}", "--out", str(disk / "run")]
    return ["ask", str(tmp_path / "photo.png"), "Which colour?", *named]


def evaluate(out: Path, *more: str) -> list[str]:
    return ["eval", "nested-squares", "--n", "4", "--model", "solver", "--dialect", "direct", "--out", str(out), *more]


FILLING = """
from contextlib import suppress
from saccade.models.scripted import ScriptedModel

class Filling(ScriptedModel):
    def __init__(self):
        super().__init__([{answer!r}], name="filling")

    async def complete(self, request, media, *, on_text=None):
        with suppress(OSError), open({filler!r}, "ab", buffering=0) as file:
            while file.write(b"x" * 512):
                pass
        return await super().complete(request, media, on_text=on_text)
"""
"""A model of the user's own, while which is asked the disk fills."""


def test_a_paid_answer_is_printed_though_it_cannot_be_kept(
    tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ask(tmp_path, disk)
    assert main(command) == 0
    complete, filler = (disk / "run" / "trajectories.jsonl").read_bytes(), disk / "filler"
    (tmp_path / "filling.py").write_text(FILLING.format(answer=ANSWER, filler=str(filler)))
    filling = [*command, "--model", f"{tmp_path / 'filling.py'}:Filling"]
    out, message = refused(capsys, *filling)
    assert "red" in out
    assert "Kept in" not in out
    assert "trajectories.jsonl cannot be used: the disk is full." in message
    filler.unlink()
    out, _ = refused(capsys, *filling, "--json")
    assert json.loads(out)["answer"] == "red"
    assert (disk / "run" / "trajectories.jsonl").read_bytes() == complete
    filler.unlink()
    assert main(command) == 0


def test_a_disk_without_room_for_the_picture_is_refused_before_anything_is_asked(
    tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ask(tmp_path, disk)
    fill(disk)
    out, message = refused(capsys, *command)
    assert out == ""
    assert "the disk is full" in message


def test_a_run_folder_that_may_not_be_written_is_refused_before_anything_is_asked(
    tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ask(tmp_path, disk)
    read_only(disk)
    out, message = refused(capsys, *command)
    assert "read-only" in message
    assert out == ""


def test_an_evaluation_continues_when_there_is_space_again(
    tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(evaluate(disk / "run", "--n", "2")) == 0
    complete = (disk / "run" / "trajectories.jsonl").read_bytes()
    filler = fill(disk)
    _, message = refused(capsys, *evaluate(disk / "run"))
    assert "the disk is full" in message
    assert (disk / "run" / "trajectories.jsonl").read_bytes() == complete
    filler.unlink()
    assert main(evaluate(disk / "run")) == 0
    assert main(evaluate(tmp_path / "run")) == 0
    results = [(folder / "run" / "results.jsonl").read_bytes() for folder in (disk, tmp_path)]
    assert results[0] == results[1]


def test_what_reads_a_run_says_that_it_cannot_write(
    tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = disk / "run"
    assert main(evaluate(run)) == 0
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    commands = (
        ["show", str(run), "--no-open"],
        ["report", str(run)],
        ["regrade", str(run), "--grader", "text"],
        ["protocols", str(run), "--only", "tool_use"],
        ["merge", str(run), "--out", str(disk / "merged")],
        ["export", str(run), "--format", "csv"],
    )
    filler = fill(disk)
    for command in commands:
        assert "the disk is full" in refused(capsys, *command)[1]
    filler.unlink()
    read_only(disk)
    for command in commands:
        assert "read-only" in refused(capsys, *command)[1]
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_path_that_no_folder_can_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "/proc/" in refused(capsys, *evaluate(Path("/proc/no-such/run")))[1]


def test_a_full_disk_leaves_no_half_line(disk: Path) -> None:
    file = disk / "tasks.jsonl"
    append_lines(file, [Task(id="a", question="?")])
    fill(disk)
    with pytest.raises(OSError, match=r"No space.*tasks.jsonl"):
        append_lines(file, [Task(id="b", question="x" * 100_000)])
    assert [task.id for task in read_lines(file, Task)] == ["a"]


def test_a_folder_that_may_not_be_written_is_not_blamed_on_the_picture(
    tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ask(tmp_path, disk)
    read_only(disk)
    _, message = refused(capsys, *command)
    assert message.startswith(f"saccade: {disk}")
    assert "photo.png" not in message
