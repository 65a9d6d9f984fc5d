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
from tests.training.sft.curate.cases import Runs, ran, said
from tests.training.sft.formats.cases import Scene

from saccade.cli.main import main
from saccade.dialects.base import load_dialect
from saccade.record.codec import read_lines
from saccade.record.content import Answer, Code
from saccade.record.trajectory import CORRECT, Trajectory
from saccade.tasks.sources.task_set import SourceFile, open_tasks
from saccade.tools.setup import VARIABLE


def test_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(tmp_path)
    run = scene.write(scene.two_looks("thyme@1:eval"), scene.two_looks("codev@1", id="other"))
    target = tmp_path / "thyme"
    assert main(["convert", str(run), "--out", str(target), "--from", "saccade", "--to", "thyme"]) == 0
    printed = capsys.readouterr()
    assert "1 of 2 rows" in printed.out
    assert "row 2 other#0" in printed.err
    assert main(["convert", str(target), "--out", str(tmp_path / "back"), "--from", "thyme", "--to", "saccade"]) == 0


def test_nothing_converted_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text(json.dumps({"messages": []}) + "\n")
    arguments = ["convert", str(file), "--out", str(tmp_path / "out"), "--from", "swift", "--to", "saccade"]
    assert main(arguments) == 1
    assert "no list of messages" in capsys.readouterr().err


def test_a_video_is_refused_without_advice_that_cannot_be_followed_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    video(folder / "clip.mp4")
    (folder / "q.jsonl").write_text(json.dumps({"question": "What?", "videos": ["clip.mp4"], "answer": "x"}) + "\n")
    arguments = [str(folder), "--out", str(tmp_path / "out"), "--from", "saccade", "--to", "sharegpt"]
    assert main(["convert", *arguments, "--dialect", "pyvision"]) == 1
    said = capsys.readouterr().err
    assert "is a video; a dialect for videos takes it" in said
    assert "frames.fps" not in said


def test_list_names_filters_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curate", "--list"]) == 0
    printed = capsys.readouterr().out
    assert "tool-turns@1" in printed
    assert "at_least = 2" in printed
    assert "judge = needed" in printed


def test_curate_prints_a_table_and_writes_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = Runs(tmp_path)
    runs.write(
        runs.trajectory("good", ran(), ran(), said("5"), correct=1.0, task={"source": "charts"}),
        runs.trajectory("[bold]wrong", correct=0.0, task={"source": "maps"}),
        runs.trajectory("direct", correct=1.0, task={"source": "maps"}),
    )
    out = tmp_path / "kept"
    arguments = ["curate", str(tmp_path / "run"), "--pipeline", "pyvision-rl", "--out", str(out)]
    assert main([*arguments, "--set", "tool-turns.at_least=1"]) == 0
    printed = capsys.readouterr().out
    assert "1 of 3 trajectories" in printed
    assert "fewer than 1 tool turns" in " ".join(printed.split())
    assert "[bold]wrong" in "".join(printed.split())
    assert json.loads((out / "report.json").read_text())["kept"] == 1
    assert main(arguments) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_run_is_made_continued_and_guarded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["synth", "circled-letter", "--dialect", "vista", "--out", str(tmp_path / "run"), "--n", "3"]
    assert main(command) == 0
    assert "3 trajectories made, 3 of them right" in capsys.readouterr().out
    made = list(read_lines(tmp_path / "run" / "trajectories.jsonl", Trajectory))
    assert [item.id for item in made] == [f"circled-letter@1/train/{number}#0" for number in range(3)]
    assert all(item.provenance.model.startswith("expert:") for item in made)
    assert main(command) == 0
    assert "3 were there before" in capsys.readouterr().out
    assert main([*command, "--set", "expert.verbosity=short"]) == 2
    assert 'expert.verbosity: (not set) -> "short"' in capsys.readouterr().err


def test_a_prompt_file_is_what_the_model_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the trajectories of experts as of teachers; and a run is not continued with another text in it."""
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("System prompt:\nMy tools: {tools}\nUser prompt:\nMine: {query}")
    Path("plain.txt").write_text("User prompt:\nMine: {query}")
    Path("replies.json").write_text('["<answer>A</answer>", "<answer>A</answer>"]')
    command = ["synth", "circled-letter", "--n", "2"]
    runs = {
        "experts": ["--dialect", "vista", "--out", "experts", "--set", "prompt_file=mine.txt"],
        "teacher": [
            *("--dialect", "codedance", "--teacher", "scripted:replies.json", "--out", "teacher"),
            *("--set", "prompt_file=plain.txt"),
        ],
    }
    for name, given in runs.items():
        assert main([*command, *given]) == 0, capsys.readouterr().err
        for made in read_lines(Path(name) / "trajectories.jsonl", Trajectory):
            assert f"Mine: {made.task.question}" in made.prompt[-1].text
    assert "My tools: " in next(iter(read_lines(Path("experts/trajectories.jsonl"), Trajectory))).prompt[0].text
    for file, given in zip(("mine.txt", "plain.txt"), runs.values(), strict=True):
        Path(file).write_text(Path(file).read_text().replace("Mine", "Yours"))
        capsys.readouterr()
        assert main([*command, *given]) == 2
        assert f"{file} has changed" in capsys.readouterr().err
    wrong = ["--dialect", "vista", "--out", "wrong", "--set", "prompt_file=none.txt"]
    assert main([*command, *wrong]) == 2
    assert "none.txt cannot be read" in capsys.readouterr().err
    assert not Path("wrong").exists()


def test_the_26_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [bool(item["paper"]) for item in listed] == [True] * 26 + [False] * (len(listed) - 26)
    by_name = {item["tool"]: item for item in listed}
    assert by_name["crop"]["state"] == "ready"
    assert by_name["opencv"]["state"] == "ready"
    assert (by_name["sam"]["state"], by_name["sam"]["cost"]) == ("unavailable", "heavy")
    assert VARIABLE in by_name["sam"]["remedy"]
    assert by_name["chartmoe"]["state"] == "unavailable"


def test_what_the_setup_names_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "setup.toml").write_text('[chartmoe]\nmodel = "compatible:x@http://localhost:1/v1"\n')
    monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
    assert main(["tools", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("ChartMoE.answer" in line and "chartmoe task=answer" in line and " ready " in line for line in lines)
    assert any(line.startswith("  gllava: write [gllava] model = ") for line in lines)
    assert not any(line.startswith("  chartmoe:") for line in lines)


@pytest.mark.parametrize("text", ["[sam]\nwieghts = 'x'\n", "[sam\n", "sam = 3\n"])
def test_a_wrong_setup_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "setup.toml").write_text(text)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
    assert main(["tools", "list"]) == 2
    assert VARIABLE in capsys.readouterr().err


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
