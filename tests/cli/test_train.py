"""`saccade rl` with a tiny checkpoint that writes noise."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from PIL import Image
from tests.models.helpers import Media, ask
from tests.tasks.sources.files import jsonl, video
from tests.training.sft.train.support import settings, write_run

from saccade.cli.main import main
from saccade.core.recipes import find_recipe, recipe_names
from saccade.core.settings import load_settings, save_settings
from saccade.models.base import Completion, Request
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.record.codec import read_lines
from saccade.record.content import VideoPart
from saccade.record.trajectory import Trajectory
from saccade.tokens.local_model import LocalModel
from saccade.training.sft.settings import SftSettings

pytest.importorskip("torch")


def command(out: Path, *more: str) -> list[str]:
    sets = ["dialect=direct:short", "rollout.group_size=2", "rollout.sampling.max_tokens=4", "rounds.tasks=2"]
    sets += ["steps=1"]
    sets += ["reward.preset=pyvision-rl", "loss.kl_weight=0", "validation.tasks=1", "keep.tensorboard=false"]
    options = [part for item in sets for part in ("--set", item)]
    return ["rl", "vista-r1", "--profile", "tiny", "--out", str(out), *options, *more]


def test_a_recipe_on_a_world(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    given = ("--model", str(tiny), "--tasks", "pixel-colour")
    assert main(command(out, *given)) == 0
    said = capsys.readouterr().err
    assert "step 1/1" in said
    assert f"trained model: {out / 'model'}" in said.replace("\n", "")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 1]
    assert lines[1]["rollouts"] == 4
    assert main(command(out, *given)) == 2
    assert "--resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "--model"),
        (("--model", "x"), "--tasks"),
        (("--model", "x", "--tasks", "x", "--engine", "host:8000"), "http://host:port"),
        (("--model", "x", "--tasks", "x", "--set", "stepps=3"), "steps"),
        (("--model", "x", "--tasks", "x", "--set", "generation.decoding_batch=3"), "decoding_batches"),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], said: str
) -> None:
    assert main(command(tmp_path / "run", *more)) == 2
    assert said in capsys.readouterr().err


def test_a_run_is_resumed_with_more_steps_and_ends_as_one_begun_with_them(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--model", str(tiny), "--tasks", "pixel-colour", "--set", "keep.every=1")
    grown, at_once = tmp_path / "grown", tmp_path / "whole"
    assert main(command(grown, *given)) == 0
    assert main(command(grown, *given, "--set", "steps=2", "--resume")) == 0
    assert "resumed with more recipe.steps: 1 -> 2. It ends as if" in capsys.readouterr().err.replace("\n", " ")
    assert main(command(at_once, *given, "--set", "steps=2")) == 0
    name = "model/model.safetensors"
    assert (grown / name).read_bytes() == (at_once / name).read_bytes()
    assert main(command(grown, *given, "--resume")) == 2
    assert "recipe.steps: 2 -> 1" in capsys.readouterr().err


def test_a_checkpoint_becomes_a_model(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    more = ("--set", "keep.every=1", "--set", "steps=2", "--set", "keep.checkpoints=5")
    assert main(command(out, "--model", str(tiny), "--tasks", "pixel-colour", *more)) == 0
    assert main(["export", str(out / "checkpoints" / "step-00000001")]) == 0
    assert f"--model local:{out / 'models' / 'step-00000001'}" in capsys.readouterr().out
    assert main(["export", str(out / "checkpoints" / "step-00000002"), "--out", str(tmp_path / "last")]) == 0
    trained, last = (folder / "model.safetensors" for folder in (out / "model", tmp_path / "last"))
    assert last.read_bytes() == trained.read_bytes()
    assert (tmp_path / "last" / "saccade.json").read_bytes() == (out / "model" / "saccade.json").read_bytes()
    assert (out / "models" / "step-00000001" / "model.safetensors").read_bytes() != trained.read_bytes()
    for arguments, said in (
        ([str(out)], "step-00000001, step-00000002"),
        ([str(out / "checkpoints" / "step-00000001"), "--format", "csv"], "no --format"),
        ([str(out / "checkpoints" / "step-00000001"), "--dtype", "int8"], "float32 or bfloat16"),
        ([str(tmp_path), "--dtype", "float32"], "--dtype is for the model"),
    ):
        assert main(["export", *arguments]) == 2
        assert said in capsys.readouterr().err.replace("\n", " ")


def test_validation_takes_several_samples_of_any_source(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--model", str(tiny), "--tasks", "pixel-colour", "--set", 'validation.source="shape-count"')
    several = ("--set", "validation.samples=3", "--set", "validation.tasks=2")
    assert main(command(tmp_path / "none", *given, *several)) == 2
    assert "set validation.temperature" in capsys.readouterr().err
    warm = ("--set", "validation.temperature=1.0")
    assert main(command(tmp_path / "none", *given, *several, *warm, "--set", "validation.grader=nothing")) == 2
    out = tmp_path / "run"
    assert main(command(out, *given, *several, *warm)) == 0
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert "validation/pass_at_k" in lines[0]
    assert 0 <= lines[0]["validation/accuracy"] <= lines[0]["validation/pass_at_k"] <= 1
    samples = [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]
    assert any("shape-count" in sample["id"] for sample in samples)
    assert len({sample["wrote"] for sample in samples}) > 1


@pytest.mark.parametrize("name", recipe_names("sft"))
def test_recipes_are_settings(name: str) -> None:
    assert load_settings(SftSettings, find_recipe("sft", name)) != SftSettings()


def test_a_run_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tiny(tmp_path / "tiny", "qwen3_vl")
    write_run(tmp_path / "run", 3)
    capsys.readouterr()
    recipe = tmp_path / "recipe.toml"
    save_settings(settings(Path("nowhere"), validation={"fraction": 0.3, "every": 1}), recipe)
    options = ["--data", str(tmp_path / "run"), "--model", str(tmp_path / "tiny"), "--out", str(tmp_path / "out")]
    arguments = ["sft", str(recipe), *options, "--set", "steps=1"]
    assert main(arguments) == 0
    printed = capsys.readouterr().err
    assert "trajectories of" in printed
    assert "step 1/1  loss" in printed
    assert "tokens/s" in printed
    assert (tmp_path / "out" / "model" / "config.json").exists()
    saved = load_settings(SftSettings, tmp_path / "out" / "settings.toml")
    assert saved.data.runs == (str(tmp_path / "run"),)
    assert saved.steps == 1

    assert main([*arguments, "--set", "epochs=2", "--resume"]) == 2
    assert "epochs: 1.0 -> 2.0" in capsys.readouterr().err
    assert main([*arguments, "--set", "steps=2", "--resume"]) == 0
    printed = capsys.readouterr().err.replace("\n", " ")
    assert "resumed with more steps: 1 -> 2. The learning rate follows the schedule" in printed
    assert "2 steps, 1 of them done" in printed
    assert main(["export", str(tmp_path / "out" / "checkpoints" / "step-00000001")]) == 0
    assert (tmp_path / "out" / "models" / "step-00000001" / "config.json").exists()


@pytest.mark.parametrize(
    ("text", "options", "complaint"),
    [
        ("", [], "no checkpoint is named"),
        ("", ["--model", "m"], "no run folder is named"),
        ("epoch = 3", [], "epochs"),
        ('[model]\nvision = "some"', [], "model.vision"),
        ("", ["--model", "no/such/folder", "--data", "."], "no run folder: it has no trajectories.jsonl"),
    ],
)
def test_mistakes_are_named(
    text: str, options: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(text)
    assert main(["sft", str(recipe), "--out", str(tmp_path / "out"), *options]) == 2
    assert complaint in capsys.readouterr().err


def test_a_missing_checkpoint_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "run", 1)
    options = ["--model", "no/such/folder", "--data", str(tmp_path / "run"), "--out", str(tmp_path / "out")]
    assert main(["sft", "plain", *options]) == 2
    assert "no folder no/such/folder" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_help_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sft", "--help"]) == 0
    printed = capsys.readouterr().out
    assert "--resume" in printed
    assert "accelerate launch" in printed


async def asked(model: LocalModel, request: Request, media: Media) -> Completion:
    try:
        return await model.complete(request, media)
    finally:
        await model.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is falling back")
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("family", ["qwen3_5", "glm46v", "gemma4"])
@pytest.mark.parametrize("language", ["full", "lora"])
def test_a_checkpoint_is_trained_and_runs(family: str, language: str, tmp_path: Path) -> None:
    save_tiny(tmp_path / "tiny", family)
    write_run(tmp_path / "run", 3)
    recipe = tmp_path / "recipe.toml"
    save_settings(settings(Path("nowhere"), validation={"fraction": 0.3, "every": 1}), recipe)
    options = ["--data", str(tmp_path / "run"), "--model", str(tmp_path / "tiny"), "--out", str(tmp_path / "sft")]
    more = ["--set", "steps=2", "--set", f"model.language={language}"]
    assert main(["sft", str(recipe), *options, *more]) == 0
    lines = [json.loads(line) for line in (tmp_path / "sft" / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) >= 2
    assert losses[-1] < losses[0]
    given = ("--model", str(tmp_path / "sft" / "model"), "--tasks", "pixel-colour")
    more = ("--set", f"model.language={language}", "--set", "model.picture_pixels=0")
    assert main(command(tmp_path / "rl", *given, *more)) == 0
    model = LocalModel(str(tmp_path / "rl" / "model"))
    media = Media()
    red = media.put(Image.new("RGB", (112, 56), "red"))
    done = asyncio.run(asked(model, ask("What is it? ", red), media))
    assert done.token_ids
    assert done.usage.prompt_tokens > 10


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    video(folder / "a.mp4")
    return jsonl(folder / "questions.jsonl", [{"video": "a.mp4", "question": "How bright?", "answer": "1"}])


def evaluated(tasks: Path, model: str, dialect: str, out: Path, *settings: str) -> int:
    more = [part for setting in (*settings, "sampling.max_tokens=4") for part in ("--set", setting)]
    return main(["eval", str(tasks), "--model", model, "--dialect", dialect, "--out", str(out), *more])


def played(out: Path) -> Trajectory:
    (one,) = read_lines(out / "trajectories.jsonl", Trajectory)
    return one


def test_frames_as_one_video_cost_half_and_are_trained_on(
    tasks: Path, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = f"local:{tiny}"
    assert evaluated(tasks, model, "direct:video", tmp_path / "native", "frames.count=8") == 0
    assert evaluated(tasks, model, "direct", tmp_path / "pictures", "frames.count=8") == 0
    native, pictures = played(tmp_path / "native"), played(tmp_path / "pictures")
    (part,) = native.prompt[-1].media
    assert isinstance(part, VideoPart)
    assert part.sample is not None
    assert part.sample.indices == (0, 2, 4, 6, 9, 11, 13, 15)
    cost, as_pictures = native.turns[0].tokens.context_visual, pictures.turns[0].tokens.context_visual
    assert cost == (as_pictures or 0) // 2 == 4 * 4  # steps, features of each
    capsys.readouterr()
    assert main(["protocols", str(tmp_path / "native"), "--only", "tokens", "--out", str(tmp_path / "found")]) == 0
    found = json.dumps([json.loads(path.read_text()) for path in (tmp_path / "found").rglob("*tokens*.json")])
    assert '"visual": 16' in found
    assert '"estimated": false' in found
    train = ["sft", "plain", "--data", str(tmp_path / "native"), "--model", str(tiny), "--out", str(tmp_path / "sft")]
    small = ["steps=1", "keep.tensorboard=false"]
    assert main([*train, *(part for item in small for part in ("--set", item))]) == 0
    assert (tmp_path / "sft" / "model" / "video_preprocessor_config.json").read_bytes()


def test_frames_that_a_server_would_not_show_are_refused_before_it_is_asked(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluated(tasks, "vllm:m@http://127.0.0.1:9/v1", "direct:video", tmp_path / "run", "frames.fps=1") == 2
    assert "vllm chooses the frames of a video itself" in capsys.readouterr().err


def test_a_family_without_video_is_refused_with_its_reason(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tiny(tmp_path / "internvl", "internvl")
    assert evaluated(tasks, f"local:{tmp_path / 'internvl'}", "direct:video", tmp_path / "run") != 0
    said = capsys.readouterr()
    assert "internvl reads no videos in this process: It reads a video as pictures" in said.err + said.out
