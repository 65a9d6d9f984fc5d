"""The folder of a training run: what may begin in it, and what is said where nothing is there to continue."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from saccade.core.settings import Settings, save_settings
from saccade.errors import SettingsError
from saccade.training.folder import SETTINGS, check_folder
from saccade.training.rl.recipe import load_recipe
from saccade.training.rl.settings import RlSettings
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
