"""A whole reproduction at the smallest scale, with the weights that come along: nothing is scripted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image

from examples.reproduce.__main__ import app
from examples.reproduce.claims import load_claim
from examples.reproduce.evidence import ClaimVerdict
from examples.reproduce.run import reproduce
from examples.reproduce.settings import RECIPES, Reproduction
from saccade.cli.main import run
from saccade.core.settings import load_settings
from saccade.episode.run_folder import TRAJECTORIES
from saccade.errors import SettingsError
from saccade.record.codec import read_lines
from saccade.record.execution import Status
from saccade.record.trajectory import Trajectory
from saccade.training.rl.metrics import RlCallback
from saccade.training.sft.examples import SftCallback

SMALL = (
    'task_sets=[{name="circles",worlds=["touching-circles"],train=6,held_out=5}]',
    'start.demonstrations=[{tasks="circles",play="guess",n=3},{tasks="circles",play="stumble",n=3},'
    '{tasks="circles",play="again",n=3}]',
    "start.steps=2",
    "start.trajectories=9",
    "steps=2",
    "fewest_steps=1",
    'every_arm=["rounds.tasks=3","rounds.groups=1","rounds.rounds=1","rollout.group_size=3","selection.groups=2"]',
)


class Stop(RlCallback):
    """Breaks off after the first step of the second arm."""

    def __init__(self) -> None:
        self.begun = 0

    def begins(self, done: int, total: int) -> None:
        self.begun += 1

    def step(self, number: int, values: object) -> None:
        if self.begun == 3:  # the first was the probe
            raise KeyboardInterrupt


class Heard:
    """A `ReproduceCallback` that keeps what it is told."""

    def __init__(self, trainer: RlCallback) -> None:
        self.said: list[str] = []
        self.trainer = trainer

    def says(self, text: str) -> None:
        self.said.append(text)

    @contextmanager
    def sft(self) -> Iterator[SftCallback]:
        yield SftCallback()

    @contextmanager
    def rl(self) -> Iterator[RlCallback]:
        yield self.trainer


def small(claim: str, *more: str) -> Reproduction:
    return load_settings(Reproduction, RECIPES / f"{claim}.toml", [*SMALL, *more])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_broken_off_and_gone_on_with(tmp_path: Path) -> None:
    claim, out = load_claim("std-sorting"), tmp_path / "std-sorting"
    heard = Heard(Stop())
    with pytest.raises(KeyboardInterrupt):
        reproduce(claim, small("std-sorting"), out, heard)
    assert heard.said[0].startswith("claim: std sorting lowers")
    assert "below 0" in heard.said[0]
    first = (out / "arms" / "sorted" / "0" / "model" / "model.safetensors").stat().st_mtime_ns

    made = reproduce(claim, small("std-sorting", "processes=2"), out, Heard(RlCallback()))
    assert (out / "arms" / "sorted" / "0" / "model" / "model.safetensors").stat().st_mtime_ns == first
    assert made.plan.steps == 2
    assert [(row.policy, row.seed, row.n) for row in made.rows] == [
        ("start", None, 5),
        ("sorted", 0, 5),
        ("unsorted", 0, 5),
    ]
    assert [item.expectation.name for item in made.findings] == ["share", "variance", "training"]
    result = json.loads((out / "result.json").read_text())
    assert result["verdict"] == made.verdict.value
    assert result["seeds"] == [0]
    assert f"std-sorting: {made.verdict.value}" in (out / "report.md").read_text()
    with Image.open(out / "figure.png") as picture:
        assert picture.width > 800
    assert (out / "figure.svg").read_text().count("<svg") == 1

    stumbles = list(read_lines(out / "start" / "demonstrations" / "1-stumble-circles" / TRAJECTORIES, Trajectory))
    assert len(stumbles) == 3
    for item in stumbles:
        runs = [turn.execution.status for turn in item.turns if turn.execution is not None]
        assert runs == [Status.ERROR, Status.OK]
    kept = list(read_lines(out / "arms" / "sorted" / "0" / "rollouts" / TRAJECTORIES, Trajectory))
    assert len(kept) == 18

    with pytest.raises(SettingsError, match=r"start\.steps: 2 -> 3"):
        reproduce(claim, small("std-sorting", "start.steps=3"), out, Heard(RlCallback()))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_arm_that_cannot_be_trained_is_part_of_the_outcome(tmp_path: Path) -> None:
    # No task has so many rollouts, so none is left to choose.
    arms = [
        '{name="plateau",recipe="vista-r1"}',
        '{name="tail-patch",recipe="vista-r1",after="plateau",curriculum=true,change=["curriculum.fewest=99"]}',
        '{name="further",recipe="vista-r1",after="plateau"}',
    ]
    every = 'every_arm=["rounds.tasks=2","rounds.groups=1","rounds.rounds=1","rollout.group_size=2"]'
    tasks = 'task_sets=[{name="circles",worlds=["touching-circles"],train=2,held_out=4}]'
    more = (
        f"arms=[{','.join(arms)}]",
        every,
        tasks,
        "start.steps=0",
        "start.demonstrations=[]",
        "steps=1",
        "minutes=0",
    )
    heard = Heard(RlCallback())
    made = reproduce(load_claim("tail-patch"), small("tail-patch", *more), tmp_path / "out", heard)
    assert made.verdict is ClaimVerdict.OPEN
    assert all("tail-patch with seed 0 could not be trained" in item.missing for item in made.findings)
    assert [row.policy for row in made.rows] == ["start", "plateau", "further"]
    assert "no task has a pass rate" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.slow
def test_a_demonstration_that_nothing_comes_of_is_refused(tmp_path: Path) -> None:
    # More calls than an episode has turns.
    wanted = 'start.demonstrations=[{tasks="circles",play="again",calls=8,n=1}]'
    with pytest.raises(SettingsError, match="no demonstration 'again'"):
        reproduce(load_claim("std-sorting"), small("std-sorting", wanted), tmp_path, Heard(RlCallback()))


def test_too_little_is_said_before_anything_is_made(tmp_path: Path) -> None:
    lonely = small("tool-reward", 'arms=[{name="accumulative",recipe="pyvision-image"}]')
    with pytest.raises(SettingsError, match="outcome-only"):
        reproduce(load_claim("tool-reward"), lonely, tmp_path / "out", Heard(RlCallback()))
    assert not (tmp_path / "out").exists()


def test_the_command_lists_claims_and_names_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(app, ["list"], "reproduce") == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in listed] == [
        "lift", "tool-reward", "std-sorting", "adaptive", "faithful", "tail-patch", "tools",
    ]  # fmt: skip
    assert run(app, ["left"], "reproduce") == 2
    assert "lift" in capsys.readouterr().err
    assert run(app, ["lift", "--set", "steps=no"], "reproduce") == 2
    assert "steps" in capsys.readouterr().err
