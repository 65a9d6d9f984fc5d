"""One process writes to a run folder: a second is refused, by whatever path; a dead one's folder is free."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
from PIL import Image
from tests.test_extending import FILES

from saccade.cli.main import main
from saccade.core.disk import one_writer
from saccade.errors import SettingsError
from saccade.record.codec import read_lines
from saccade.record.trajectory import Trajectory

HOLD = (
    "import sys; from pathlib import Path; from saccade.core.disk import one_writer\n"
    "with one_writer(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
)
SLOW = """
import asyncio
from pathlib import Path
from my_model import Parrot

class Slow(Parrot):
    asked = 0

    async def complete(self, request, media, *, on_text=None):
        Slow.asked += 1
        if Slow.asked > 2 and Path("wait").exists():
            print("asked", flush=True)
            await asyncio.sleep(600)
        return await super().complete(request, media, on_text=on_text)
"""
PLAYED = ("--n", "6", "--dialect", "direct", "--out", "run")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before = list(sys.path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    Image.new("RGB", (64, 32), "red").save(tmp_path / "photo.png")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.path[:] = before


@contextmanager
def started(command: list[str], says: str) -> Iterator[int]:
    """The number of a process that has said so; it is killed in the end, so that it can tidy nothing up."""
    first = subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == f"{says}\n"
        yield first.pid
    finally:
        first.kill()
        first.communicate()


def test_every_command_that_writes_a_run_is_refused_while_another_does(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played = ("--model", "my_model.py:Parrot@left", "--dialect", "direct")
    assert main(["eval", "red_patch.py:WORLD", "--n", "2", *played, "--out", "run"]) == 0
    (here / "link").symlink_to("run")
    commands = (
        ["eval", "red_patch.py:WORLD", "--n", "2", *played, "--out"],
        ["ask", "photo.png", "?", *played, "--out"],
        ["regrade", "--grader", "first_letter.py:FIRST_LETTER"],
        ["synth", "red_patch.py:WORLD", "--dialect", "codedance", "--n", "1", "--out"],
        ["demo", "--out"],
        ["protocols"],
        ["review"],
        ["review", "--rate", "anna"],
    )
    with started(["-c", HOLD, str(here / "run")], "held") as pid:
        for out, command in product(("run", "link"), commands):
            capsys.readouterr()
            assert main([*command, out]) == 2
            said = capsys.readouterr().err
            assert f"process {pid} on {socket.gethostname()} writes to {out}" in said
            assert "Wait for it, end it, or name another folder" in said
        assert main(["protocols", "run", "--out", "elsewhere"]) == 0  # which only reads the run
    assert main(["regrade", "link", "--grader", "first_letter.py:FIRST_LETTER"]) == 0
    assert not (here / "run/.lock").exists()


def test_a_new_folder_is_made_by_one_process(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    played = ("--model", "my_model.py:Parrot@left", "--dialect", "direct")
    assert main(["eval", "red_patch.py:WORLD", "--n", "2", *played, "--out", "run"]) == 0
    command = ["curate", "run", "--pipeline", "pipeline.toml", "--out", "short"]
    with started(["-c", HOLD, str(here / ".short.part")], "held") as pid:
        assert main(command) == 2
        assert f"process {pid} on" in capsys.readouterr().err
    assert main(command) == 0
    assert sorted(path.name for path in here.glob(".short*")) == []


def test_a_run_that_was_killed_is_taken_over_and_holds_nothing_twice(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "slow.py").write_text(SLOW)
    (here / "wait").touch()
    command = ["eval", "red_patch.py:WORLD", *PLAYED, "--model", "slow.py:Slow@left", "--workers", "2"]
    with started(["-m", "saccade", *command], "asked") as pid:
        assert main(command) == 2
        assert f"process {pid} on" in capsys.readouterr().err
    (here / "wait").unlink()
    assert main(command) == 0
    ids = [item.id for item in read_lines(here / "run/trajectories.jsonl", Trajectory)]
    assert len(set(ids)) == len(ids) == 6


def test_a_folder_that_is_deleted_under_a_run_is_said_to_be(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "deleter.py").write_text(
        "import shutil\nfrom my_model import Parrot\nclass Deleter(Parrot):\n"
        "    async def complete(self, request, media, *, on_text=None):\n        shutil.rmtree('run')\n"
        "        return await super().complete(request, media, on_text=on_text)\n"
    )
    played = ["--n", "1", "--dialect", "direct", "--model", "deleter.py:Deleter", "--out", "run"]
    assert main(["eval", "red_patch.py:WORLD", *played]) == 2
    assert "run was deleted or moved while this run wrote to it" in capsys.readouterr().err


def test_a_hold_ends_with_its_block_and_leaves_nothing(tmp_path: Path) -> None:
    with one_writer(tmp_path / "a"), pytest.raises(SettingsError, match="writes to"), one_writer(tmp_path / "a"):
        pass
    assert not (tmp_path / "a").exists()
    with one_writer(tmp_path / "a"):
        (tmp_path / "a" / "kept").touch()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["kept"]
