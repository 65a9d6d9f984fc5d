from __future__ import annotations

import pytest

from saccade.errors import SettingsError
from saccade.training.sft.synth.jobs import job_count, jobs, knobs_by_world
from saccade.training.sft.synth.settings import SynthSettings, TeacherSettings


def test_worlds_take_turns_and_ids_are_those_of_tasks() -> None:
    settings = SynthSettings(sources=("maze", "shape-count@1", "maze@1"), dialect="codedance", n=2, start=5, samples=2)
    made = list(jobs(settings))
    assert len(made) == job_count(settings) == 8
    assert [job.id for job in made][:4] == [
        "maze@1/train/5#0",
        "shape-count@1/train/5#0",
        "maze@1/train/5#1",
        "shape-count@1/train/5#1",
    ]
    assert len({job.seed(settings) for job in made}) == 8


def test_knobs_are_checked_by_their_world() -> None:
    def settings(knobs: dict[str, dict[str, object]]) -> SynthSettings:
        return SynthSettings(sources=("visual-search",), dialect="codedance", knobs=knobs)

    turned = knobs_by_world(settings({"visual-search": {"signs": 3, "kinds": ["dot"]}}))["visual-search@1"]
    assert turned.model_dump()["signs"] == 3
    with pytest.raises(SettingsError, match="sign"):
        knobs_by_world(settings({"visual-search": {"sgns": 3}}))
    with pytest.raises(SettingsError, match="knobs are given for maze, but the worlds are visual-search"):
        knobs_by_world(settings({"maze": {}}))


def test_an_unknown_world_is_named() -> None:
    with pytest.raises(SettingsError, match="maze"):
        list(jobs(SynthSettings(sources=("mase",), dialect="codedance")))


def test_a_writer_needs_a_recipe_and_a_recipe_a_teacher() -> None:
    with pytest.raises(ValueError, match="needs a teacher"):
        TeacherSettings(recipe="densify")
    with pytest.raises(ValueError, match="has no writer"):
        TeacherSettings(model="a", writer="b")
