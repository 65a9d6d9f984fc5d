"""Processes of a run end with the one that started them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tiny"
TRAINING = """
import os, sys, time
from pathlib import Path
from saccade.training.launch import launch

def wait(folder):
    (Path(folder) / os.environ["RANK"]).write_text(str(os.getpid()))
    time.sleep(600)

if __name__ == "__main__":
    launch(wait, (sys.argv[1],), 2)
"""
DEMONSTRATIONS = """
import os, sys, time
from pathlib import Path
from saccade_tiny.build import build
from saccade_tiny.settings import DemonstrationRun, Stage, TinySettings

class Waits:
    def part(self, name):
        pass

    def demonstrations(self, name, progress):
        (Path(sys.argv[1]) / name).write_text(str(os.getpid()))
        time.sleep(600)

if __name__ == "__main__":
    world = ("touching-circles",)
    runs = [DemonstrationRun(name=name, worlds=world, dialect="tiny:direct", n=1) for name in ("a", "b", "c")]
    settings = TinySettings(demonstrations=runs, stages=[Stage(name="x", demonstrations=("a",), steps=1)])
    build(settings, Path(sys.argv[1]).parent / "out", Waits(), processes=2)
"""

REFUSING = """
import os, time
from saccade.errors import SettingsError, TrainingError
from saccade.training.launch import launch

def refuse():
    if os.environ["RANK"] == "1":
        raise SettingsError("there is no such file")
    time.sleep(600)

if __name__ == "__main__":
    try:
        launch(refuse, (), 2)
    except TrainingError as error:
        print(error)
"""


def alive(process: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
@pytest.mark.parametrize("program", [TRAINING, DEMONSTRATIONS], ids=["training", "demonstrations"])
def test_workers_of_a_killed_run_end(program: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program)
    started = tmp_path / "started"
    started.mkdir()
    command = [sys.executable, str(tmp_path / "program.py"), str(started)]
    parent = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(EXAMPLE)})
    workers: list[int] = []
    try:
        until = time.monotonic() + 120
        while len(workers) < 2 and time.monotonic() < until:
            time.sleep(0.1)
            workers = [int(text) for file in started.iterdir() if (text := file.read_text())]
        assert len(workers) == 2
        assert all(map(alive, workers))
        os.kill(parent.pid, signal.SIGKILL)
        while any(map(alive, workers)) and time.monotonic() < until:
            time.sleep(0.1)
        assert not any(map(alive, workers))
    finally:
        for process in [parent.pid, *workers]:
            if alive(process):
                os.kill(process, signal.SIGKILL)
        parent.wait()


@pytest.mark.slow
def test_of_a_refusal_in_one_process_there_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(REFUSING)
    command = [sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    assert done.stdout == "there is no such file\n"
