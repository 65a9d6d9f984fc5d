"""A folder of pictures and a folder of videos go through every command, as docs/your-data.md has them.

The page's commands run as they stand; a tiny checkpoint and a server on this machine stand for $MODEL and $TEACHER, and
options that make a run small are added.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from fastapi import Response
from PIL import Image
from tests.models.wire_server import Behaviour, WireServer, chat, running
from tests.tasks.sources.files import jsonl, picture, video

from saccade.cli.main import main
from saccade.dialects.base import load_dialect
from saccade.record.codec import read_lines
from saccade.record.content import Answer, Code
from saccade.record.trajectory import CORRECT, Trajectory
from saccade.tasks.sources.task_set import SourceFile, open_tasks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "your-data.md"
PHOTOS = Path(__file__).resolve().parents[3] / "shared" / "data" / "photos"
ROWS = {
    "mug.jpg": ("Which brand is on the mug?", "Samsung"),
    "flag.jpg": ("How many flags are there?", "1"),
    "desk.webp": ("Which is larger?", "the screen"),
}
SMALL = {
    "sft": ["steps=2", "model.picture_pixels=50176", "batch.trajectories=2", "keep.tensorboard=false"],
    "rl": [
        "steps=1",
        "rounds.tasks=2",
        "rollout.group_size=2",
        "rollout.sampling.max_tokens=8",
        "model.picture_pixels=50176",
        "keep.tensorboard=false",
    ],
}
"""What a test adds to a command of the page."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(teacher: str, model: Path) -> list[list[str]]:
    text = "\n".join(blocks("sh")).replace("$TEACHER", teacher).replace("$MODEL", str(model))
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("saccade ")]


def knows(answers: dict[str, str], dialect: str) -> Behaviour:
    """A model that runs code once and then gives the right answer to the question that it finds in its messages."""
    spoken = load_dialect(dialect)

    async def behave(body: dict[str, Any]) -> Response:
        said = json.dumps(body["messages"])
        gold = next(answer for question, answer in answers.items() if question in said)
        begun = any(message["role"] == "assistant" for message in body["messages"])
        action = Answer(text=gold) if begun else Code(code="print('seen')")
        return await chat(spoken.write(action))(body)

    return behave


@pytest.fixture
def server() -> Iterator[WireServer]:
    with running() as server:
        yield server


def photographs(folder: Path) -> None:
    """Real photographs where they are there, else drawn ones."""
    folder.mkdir()
    real = {"mug.jpg": "blackmug.JPG", "flag.jpg": "flag.JPG", "desk.webp": "desktop.webp"}
    for name, photo in real.items():
        if (PHOTOS / photo).is_file():
            copyfile(PHOTOS / photo, folder / name)
        else:
            Image.radial_gradient("L").convert("RGB").resize((640, 480)).save(folder / name)


def small(command: list[str]) -> list[str]:
    return [*command, *(part for item in SMALL.get(command[0], ()) for part in ("--set", item))]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_folder_of_photographs_goes_all_the_way(
    tiny: Path, server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    photographs(tmp_path / "photos")
    (rows, *_) = blocks("json")
    (tmp_path / "photos" / "questions.jsonl").write_text(rows, encoding="utf-8")
    assert [json.loads(row)["question"] for row in rows.splitlines()] == [question for question, _ in ROWS.values()]
    (pipeline, _) = blocks("toml")
    (tmp_path / "keep.toml").write_text(pipeline, encoding="utf-8")
    server.will(knows(dict(ROWS.values()), "codedance"))

    for command in commands(f"vllm:teacher@{server.url}/v1", tiny):
        assert main(small(command)) == 0, command

    runs = tmp_path / "runs"
    played = list(read_lines(runs / "eval" / "trajectories.jsonl", Trajectory))
    assert [score.value for item in played for score in item.scores if score.name == CORRECT] == [1.0] * 3
    kept = list(read_lines(runs / "kept" / "trajectories.jsonl", Trajectory))
    assert {item.task.question for item in kept} == {question for question, _ in ROWS.values()}
    assert (runs / "rl" / "model" / "config.json").is_file()
    trained_on = {item.task.source for item in read_lines(runs / "rl" / "rollouts" / "trajectories.jsonl", Trajectory)}
    assert trained_on == {"photos"}
    assert "Samsung" in (runs / "photos.html").read_text(encoding="utf-8")
    assert len(open_tasks([str(runs / "mixed")])) == 6


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_folder_of_videos_goes_all_the_way(
    tiny: Path, server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answers = {f"How bright is clip {number}?": str(number) for number in range(3)}
    rows = [
        {"video": f"{number}.mp4", "question": question, "answer": answer}
        for number, (question, answer) in enumerate(answers.items())
    ]
    for number in range(3):
        video(tmp_path / "clips" / f"{number}.mp4")
    jsonl(tmp_path / "clips" / "questions.jsonl", rows)
    (tmp_path / "keep.toml").write_text(blocks("toml")[0], encoding="utf-8")
    server.will(knows(answers, "pyvision-rl-video"))
    for command in commands(f"vllm:teacher@{server.url}/v1", tiny):
        words = [word.replace("photos", "clips") for word in command]
        words = ["pyvision-rl-video" if word == "codedance" and command[0] != "rl" else word for word in words]
        words = ["pyvision-video" if word == "codedance" else word for word in words]
        more = ["--set", "rounds.groups=1", "--set", "selection.groups=1"] if command[0] == "rl" else []
        assert main([*small(words), *more]) == 0, words
    kept = list(read_lines(tmp_path / "runs" / "kept" / "trajectories.jsonl", Trajectory))
    assert [[item.part.kind for item in one.task.media] for one in kept] == [["video"]] * 3
    assert (tmp_path / "runs" / "rl" / "model" / "config.json").is_file()


@pytest.mark.slow
def test_a_recipe_that_mixes_a_card_a_folder_and_a_world_trains(tiny: Path, tmp_path: Path) -> None:
    picture(tmp_path / "photos" / "a.png")
    rows = [{"image": "a.png", "question": f"{number}?", "answer": "x", "category": "text"} for number in range(4)]
    jsonl(tmp_path / "photos" / "questions.jsonl", rows)
    signs = [{"n": number, "photo": "a.png", "ask": "Which?", "right": "x"} for number in range(4)]
    picture(tmp_path / "data" / "signs" / "a.png", "blue")
    jsonl(tmp_path / "data" / "signs" / "rows.jsonl", signs)
    card = tmp_path / "signs.toml"
    card.write_text(
        'id = "signs@1"\ntitle = "Signs"\nsplit = "test"\nmedia = "image"\nprompt = "short"\nanswer_type = "text"\n'
        'source = { name = "", url = "", get = "" }\nloader = { id = "rows@1", files = ["rows.jsonl"] }\n'
        'fields = { id = "n", question = "ask", images = "photo", answer = "right" }\n'
        'graders = { text = "relaxed@1" }\n',
        encoding="utf-8",
    )
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f"""
dialect = "codedance@1"
steps = 2
rollout = {{ group_size = 2, sampling = {{ temperature = 1.0, max_tokens = 6 }}, limits = {{ turns = 1 }} }}
reward = {{ preset = "codedance@1:paper" }}
rounds = {{ tasks = 5, groups = 1, rounds = 1 }}

[[source]]
name = "{card}"
data = "{tmp_path}/data"
weight = 0.4

[[source]]
name = "{tmp_path}/photos"
tags = "category=text"
weight = 0.4
reward = {{ accuracy_weight = 1.2 }}

[[source]]
name = "pixel-colour"
weight = 0.2
search = true
""",
        encoding="utf-8",
    )
    out = tmp_path / "run"
    sets = ["model.picture_pixels=50176", "keep.tensorboard=false", "validation.every=0", "rollouts.every=1"]
    options = [part for item in sets for part in ("--set", item)]
    assert main(["rl", str(recipe), "--model", str(tiny), "--out", str(out), *options]) == 0
    rollouts = list(read_lines(out / "rollouts" / "trajectories.jsonl", Trajectory))
    tasks = {item.task.id: item.task for item in rollouts}
    by_source = sorted(task.source for task in tasks.values())
    assert by_source == ["photos"] * 4 + ["pixel-colour@1"] * 2 + ["signs@1"] * 4
    assert {task.grader for task in tasks.values() if task.source == "signs@1"} == {"relaxed@1"}
    weights = {
        item.task.source: next(score.weight for score in item.scores if score.name == "reward.accuracy")
        for item in rollouts
        if any(score.name == "reward.accuracy" for score in item.scores)
    }
    assert weights["photos"] == 1.2
    assert {weight for source, weight in weights.items() if source != "photos"} <= {1.0}


def test_the_sources_of_the_page_are_settings() -> None:
    (_, sources) = blocks("toml")
    assert len(SourceFile.model_validate(tomllib.loads(sources)).source) == 3


def test_every_question_of_a_folder_is_asked(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    picture(tmp_path / "photos" / "a.png")
    rows = [{"image": "a.png", "question": f"Which is {number}?"} for number in range(3)]
    jsonl(tmp_path / "photos" / "questions.jsonl", rows)
    server.will(knows({f"Which is {number}?": str(number) for number in range(3)}, "codedance"))
    model = ["--model", f"vllm:m@{server.url}/v1", "--dialect", "codedance"]
    assert main(["ask", "--tasks", "photos", *model, "--json"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(item["question"], item["answer"]) for item in printed} == {(f"Which is {n}?", str(n)) for n in range(3)}
    assert main(["ask", "photo.png", "What?", "--tasks", "photos", *model]) == 2
    assert "leave out a question" in capsys.readouterr().err
    assert main(["ask", "--tasks", "photoss", *model]) == 2
    assert "Did you mean 'photos'" in capsys.readouterr().err
