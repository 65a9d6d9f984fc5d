"""Tasks as Harbor's folders: read by its own models where they are installed, and graded by the program in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.training.sft.formats.cases import ALL, Scene
from typer.testing import CliRunner

from saccade.cli.tasks import app
from saccade.errors import DataError
from saccade.media.store import MediaStore
from saccade.plugins.integrations.harbor import harbor_name, write_harbor_task
from saccade.plugins.integrations.harbor_verify import main
from saccade.record.task import AnswerType, NamedMedia, Task


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path / "media")


def task(store: MediaStore, **changes: Any) -> Task:
    part = store.put_image(Image.new("RGB", (8, 6), "red"))
    fields: dict[str, Any] = {
        "id": "colours/7",
        "question": "Which colour?",
        "media": (NamedMedia(name="0-my photo.png", part=part),),
        "choices": ("blue", "red"),
        "answer": "red",
        "answer_type": AnswerType.CHOICE,
        "source": "colours",
        "tags": ("easy",),
    }
    return Task(**{**fields, **changes})


def test_the_folder(store: MediaStore, tmp_path: Path) -> None:
    folder = write_harbor_task(task(store), store, tmp_path / "out", "saccade==9")
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert files == [
        "environment/Dockerfile", "environment/media/.gitkeep", "environment/media/image_0.png", "instruction.md",
        "solution/answer.txt", "solution/solve.sh", "task.toml", "tests/Dockerfile", "tests/task.json", "tests/test.sh",
    ]  # fmt: skip
    settings = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
    assert settings["schema_version"] == "1.4"
    assert settings["task"]["name"] == f"saccade/{folder.name}"
    assert settings["artifacts"] == ["/workspace/answer.txt"]
    assert settings["verifier"]["environment_mode"] == "separate"
    said = (folder / "instruction.md").read_text(encoding="utf-8")
    assert said.startswith("Which colour?\nA. blue\nB. red\n")
    assert "`/workspace/media/image_0.png`" in said
    assert "saccade==9" in (folder / "tests/Dockerfile").read_text(encoding="utf-8")
    with Image.open(folder / "environment/media/image_0.png") as picture:
        assert picture.size == (8, 6)
    assert os.access(folder / "tests/test.sh", os.X_OK)


def test_nothing_that_the_agent_sees_tells_the_answer(store: MediaStore, tmp_path: Path) -> None:
    part = store.put_image(Image.new("RGB", (8, 6), "red"))
    named = (NamedMedia(name="0-vermilion.png", part=part),)
    one = task(store, choices=(), answer="vermilion", answer_type=AnswerType.TEXT, media=named)
    folder = write_harbor_task(one, store, tmp_path)
    seen = [folder / "instruction.md", *(folder / "environment").rglob("*")]
    leaks = [
        path for path in seen if "vermilion" in path.name or (path.is_file() and b"vermilion" in path.read_bytes())
    ]
    assert not leaks


@pytest.mark.parametrize(
    ("answer", "reward"), [("B", "1"), ("red\n", "1"), ("blue", "0"), ("", "0"), (None, "0"), ("\xff", "0")]
)
def test_what_is_graded_is_the_file(store: MediaStore, tmp_path: Path, answer: str | None, reward: str) -> None:
    folder = write_harbor_task(task(store), store, tmp_path / "out")
    if answer is not None:
        (tmp_path / "answer.txt").write_bytes(answer.encode("latin-1"))
    assert main([str(folder / "tests/task.json"), str(tmp_path / "answer.txt"), str(tmp_path / "reward.txt")]) == 0
    assert (tmp_path / "reward.txt").read_text(encoding="utf-8").strip() == reward


def test_the_scripts_as_they_stand(store: MediaStore, tmp_path: Path) -> None:
    """The solution and then the test, in folders of the test in place of those of a container."""
    folder = write_harbor_task(task(store), store, tmp_path / "out")
    (tmp_path / "workspace").mkdir()
    places = {f"/{name}/": f"{folder}/{name}/" for name in ("solution", "tests")}
    places |= {f"/{name}/": f"{tmp_path}/{name}/" for name in ("workspace", "logs")}
    for script in ("solution/solve.sh", "tests/test.sh"):
        text = (folder / script).read_text(encoding="utf-8").replace("/logs/verifier\n", f"{tmp_path}/logs/verifier\n")
        for place, there in places.items():
            text = text.replace(f" {place}", f" {there}")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        subprocess.run(["sh", "-c", text], check=True, env=os.environ | {"PATH": path})
    assert (tmp_path / "logs/verifier/reward.txt").read_text(encoding="utf-8") == "1\n"


def test_a_task_that_could_not_be_graded_is_refused(store: MediaStore, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no gold answer"):
        write_harbor_task(task(store, answer=None, choices=(), answer_type=AnswerType.TEXT), store, tmp_path)
    with pytest.raises(DataError, match="does not call the gold answer right"):
        write_harbor_task(task(store, answer="many", choices=(), answer_type=AnswerType.NUMBER), store, tmp_path)
    write_harbor_task(task(store), store, tmp_path)
    with pytest.raises(DataError, match="already"):
        write_harbor_task(task(store), store, tmp_path)


@pytest.mark.parametrize("name", ["plain-1", "a/b", "ä ö", "..", "x..y", "-", "n" * 300, ".hidden"])
def test_names(name: str) -> None:
    import re

    made = harbor_name(name)
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._-]*", made)
    assert ".." not in made
    assert len(made) < 100
    assert (made == name) is (name == "plain-1")


def test_from_any_source(tmp_path: Path) -> None:
    form = ["--to", "harbor", "--set", "requirement=saccade==9"]
    done = CliRunner().invoke(app, ["write", "circled-letter", "--n", "2", *form, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    folders = list((tmp_path / "out").iterdir())
    assert len(folders) == 2
    assert all("saccade==9" in (folder / "tests" / "Dockerfile").read_text() for folder in folders)


def test_harbors_own_models_read_it(store: MediaStore, tmp_path: Path) -> None:
    models = pytest.importorskip("harbor.models.task.task", reason="harbor needs Python 3.12 and is not installed")
    folder = write_harbor_task(task(store), store, tmp_path)
    assert models.Task.is_valid_dir(folder)
    assert models.Task(folder).config.task.short_name == folder.name


def test_harbors_validator_passes_our_trajectories_and_finds_their_pictures(tmp_path: Path) -> None:
    checking = pytest.importorskip("harbor.utils.trajectory_validator", reason="harbor is not installed")
    scene = Scene(tmp_path)
    episodes = [scene.two_looks(dialect, id=f"t/{number}") for number, dialect in enumerate(ALL)]
    folder, out = scene.convert(scene.write(*episodes), "saccade", "atif")
    assert out.refused == ()
    documents = sorted(folder.glob("*.json"))
    assert len(documents) == len(ALL)
    validator = checking.TrajectoryValidator()
    for document in documents:
        assert validator.validate(document), validator.errors
    shutil.rmtree(folder / "media")
    assert not validator.validate(documents[0]), "it looks for the pictures"
