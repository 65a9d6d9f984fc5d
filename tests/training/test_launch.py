"""The recipe, the folder and the processes of a run."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from saccade.cli.main import main
from saccade.core.disk import one_writer
from saccade.core.recipes import FOLDER, find_recipe, recipe_list, recipe_names
from saccade.core.settings import Settings, save_settings
from saccade.errors import SettingsError
from saccade.training.rl.recipe import load_recipe
from saccade.training.rl.settings import RlSettings
from saccade.training.settings import SETTINGS, check_folder
from saccade.training.sft.settings import DataSettings, SftSettings


class Small(Settings):
    steps: int = 3


def test_resume_without_a_run_begins_one_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "saccade"):
        check_folder(Small(), tmp_path / "new", resume=False)
        assert caplog.messages == []
        check_folder(Small(), tmp_path / "new", resume=True)
    assert caplog.messages == [f"There is no run in {tmp_path / 'new'} yet, so --resume begins one."]


def test_a_run_that_ended_before_its_first_step_is_begun_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save_settings(Small(), tmp_path / SETTINGS)
    check_folder(Small(steps=4), tmp_path, resume=False)
    assert "ended before its first step" in caplog.text


def test_a_folder_of_something_else_and_of_other_settings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(SettingsError, match="holds no settings"):
        check_folder(Small(), tmp_path, resume=True)
    save_settings(Small(), tmp_path / SETTINGS)
    (tmp_path / "metrics.jsonl").touch()
    with pytest.raises(SettingsError, match="--resume"):
        check_folder(Small(), tmp_path, resume=False)
    check_folder(Small(), tmp_path, resume=True)
    with pytest.raises(SettingsError, match="steps: 3 -> 4"):
        check_folder(Small(steps=4), tmp_path, resume=True)


def test_a_second_process_is_refused_with_the_number_of_the_first(tmp_path: Path) -> None:
    save_settings(Small(), tmp_path / SETTINGS)
    program = (
        "import sys; from pathlib import Path; from saccade.core.disk import one_writer\n"
        "with one_writer(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    first = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "held\n"
    with pytest.raises(SettingsError, match=f"process {first.pid} on .* writes to"):
        check_folder(Small(), tmp_path, resume=True)
    with pytest.raises(SettingsError, match=f"process {first.pid} on .* writes to"), one_writer(tmp_path):
        pass
    first.kill()  # the lock is gone with the process
    first.communicate()
    check_folder(Small(), tmp_path, resume=True)
    with one_writer(tmp_path):
        pass


@pytest.mark.parametrize(
    "settings",
    [
        SftSettings(data=DataSettings(prompt_file="mine.txt")),
        RlSettings(recipe=load_recipe("codedance").model_copy(update={"prompt_file": "mine.txt"})),
    ],
    ids=["sft", "rl"],
)
def test_another_text_in_the_prompt_file_is_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("Look. {query}")
    save_settings(settings, tmp_path / SETTINGS)
    check_folder(settings, tmp_path, resume=True)
    Path("mine.txt").write_text("Guess. {query}")
    with pytest.raises(SettingsError, match=r"mine\.txt has changed"):
        check_folder(settings, tmp_path, resume=True)


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


def test_by_name_and_by_path(tmp_path: Path) -> None:
    assert find_recipe("rl", "codedance") == FOLDER / "rl" / "codedance.toml"
    own = tmp_path / "codedance.toml"
    own.write_text("")
    assert find_recipe("rl", own) == own
    assert find_recipe("sft", str(own)) == own


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("codedanse", "no recipe 'codedanse' for this, and no such file. Did you mean 'codedance'"),
        ("recipes/codedance.toml", "recipes/codedance.toml is no file.*Did you mean 'codedance'"),
        ("mine.toml", "mine.toml is no file.*Known: codedance, codev"),
    ],
)
def test_what_is_not_there(wanted: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        find_recipe("rl", wanted)


@pytest.mark.parametrize("kind", ["curate", "rl", "sft", "sources"])
def test_every_folder_has_recipes_that_say_what_they_are(kind: str) -> None:
    names = recipe_names(kind)  # type: ignore[arg-type]
    lines = recipe_list(kind).splitlines()  # type: ignore[arg-type]
    assert [line.split()[0] for line in lines] == list(names)
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize(
    ("command", "named"),
    [(["rl", "list"], "vista-r1"), (["sft", "list"], "plain"), (["curate", "--pipeline", "list"], "codev")],
)
def test_the_commands_list_them(command: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 0
    assert f"{named} " in capsys.readouterr().out.replace(":", " ")


@pytest.mark.parametrize(
    ("command", "near"),
    [
        (["rl", "codedanse", "--model", "m", "--tasks", "t"], "codedance"),
        (["sft", "plane", "--model", "m", "--data", "r"], "plain"),
        (["curate", "runs", "--pipeline", "vists", "--out", "out"], "vista"),
    ],
)
def test_a_wrong_name_comes_before_what_is_not_installed(
    command: list[str], near: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.cli.train._NEEDED", ("no_such_package_here",))
    code = main(command)
    printed = capsys.readouterr().err
    assert code == 2
    assert f"'{near}'" in printed
    assert "no_such_package_here" not in printed
