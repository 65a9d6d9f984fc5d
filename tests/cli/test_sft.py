"""`saccade sft`: the command line around a training run, and the recipes that come with it."""

from pathlib import Path

import pytest
from tests.sft.train.support import settings, write_run

from saccade.cli.main import main
from saccade.models.tiny import save_tiny
from saccade.recipes.find import find_recipe, recipe_names
from saccade.record.settings import load_settings, save_settings
from saccade.sft.train.settings import SftSettings


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
        ("", ["--model", "no/such/folder", "--data", "."], "no run folder: there is no trajectories.jsonl in it"),
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
