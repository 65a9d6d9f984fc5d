from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file
from tests.training.rl.train.support import metrics, rl_settings, toy, untimed

from saccade.errors import DataError, SettingsError, TrainingError
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines, write_lines
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.settings import LEFT_OUT, BrokenTasks
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.rl import curriculum
from saccade.training.rl.curriculum import PASS_RATES, TaskPassRate
from saccade.training.rl.metrics import RlCallback
from saccade.training.rl.rollout import Rollout
from saccade.training.rl.run import train
from saccade.training.rl.settings import check_settings
from saccade.training.rl.step import Trainer
from saccade.training.rl.tasks import TaskList, as_list, keep_tasks, resumed_tasks


def rows(
    folder: Path, count: int, *, broken: tuple[int, ...] = (), without: tuple[int, ...] = (), ids: bool = False
) -> Path:
    """A folder with a file of rows, some with a picture that was cut short, some taken out."""
    folder.mkdir(exist_ok=True)
    lines = []
    for number in range(count):
        Image.effect_noise((56, 56), 90).save(folder / f"{number}.png")
        if number in broken:
            (folder / f"{number}.png").write_bytes((folder / f"{number}.png").read_bytes()[:200])
        if number not in without:
            row = {"image": f"{number}.png", "question": f"Which colour has {number}?", "answer": "red"}
            lines.append(json.dumps(row | ({"id": f"r{number}"} if ids else {})))
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return folder


def listed(folder: Path) -> TaskList:
    return as_list(open_tasks([str(folder)]))


def test_a_broken_picture_is_left_out_counted_and_listed(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    toy(monkeypatch, talkative=True)
    many = rows(tmp_path / "many", 8, broken=(5,))
    out = tmp_path / "run"
    settings = rl_settings(tiny, many, recipe={"steps": 3}, validation={"every": 3, "source": str(many), "tasks": 8})
    with caplog.at_level(logging.WARNING, "saccade"):
        train(settings, out)
    steps = [line for line in metrics(out) if "rollouts" in line]
    assert sorted(line["rollouts"] for line in steps) == [4, 8, 8]
    for name in (LEFT_OUT, f"validation-{LEFT_OUT}"):
        (line,) = (out / name).read_text().splitlines()
        item = json.loads(line)
        assert item["id"] == "many/rows-5"
        assert "cannot be decoded" in item["reason"]
    assert caplog.text.count("many/rows-5 is left out") == 2, "once for training, once for validation"


def test_too_many_broken_pictures_end_a_run_and_the_setting_says_how_many(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    many = rows(tmp_path / "many", 8, broken=(1, 3, 5, 7))
    with pytest.raises(DataError, match=r"of 8 tasks cannot be made.*most_broken = 0\.2.*saccade tasks check"):
        train(rl_settings(tiny, many), tmp_path / "run")
    settings = rl_settings(tiny, many, recipe={"steps": 4})
    more = settings.tasks.model_copy(update={"most_broken": 0.5})
    train(settings.model_copy(update={"tasks": more}), tmp_path / "other")
    assert len((tmp_path / "other" / LEFT_OUT).read_text().splitlines()) == 4


def test_a_run_goes_on_after_rows_were_taken_out(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    toy(monkeypatch, talkative=True)
    many = rows(tmp_path / "many", 6)
    out = tmp_path / "run"
    train(rl_settings(tiny, many, recipe={"steps": 1}), out)
    played = {item.task.id for item in read_lines(out / "rollouts/trajectories.jsonl", Trajectory)}
    gone = next(number for number in range(6) if f"many/rows-{number}" not in played)
    rows(tmp_path / "many", 6, without=(gone,))
    with caplog.at_level(logging.WARNING, "saccade"):
        train(rl_settings(tiny, many, recipe={"steps": 3}), out, resume=True)
    assert f"without 1 of 6 tasks, which were taken out since it began: many/rows-{gone}" in caplog.text
    assert sum(line["rollouts"] for line in metrics(out)) == 4 * 5
    rows(tmp_path / "many", 7)
    with pytest.raises(TrainingError, match=r"begun with other tasks: 1 of today's.*many/rows-6"):
        train(rl_settings(tiny, many, recipe={"steps": 4}), out, resume=True)


@pytest.mark.parametrize("ids", [False, True])
def test_the_others_are_the_same_tasks_under_their_old_names(ids: bool, tmp_path: Path) -> None:
    before = listed(rows(tmp_path / "many", 6, ids=ids))
    keep_tasks(before, tmp_path)
    store = MediaStore(tmp_path / "media")
    asked = {name: before.make(name, store).question for name in before.ids}
    now = resumed_tasks(listed(rows(tmp_path / "many", 6, without=(0, 3), ids=ids)), tmp_path)
    assert now.ids == before.ids
    assert [now.at(place, 7) for place in range(12)] == [before.at(place, 7) for place in range(12)]
    made = {name: now.made(name, store) for name in now.ids}
    gone = [name for name, task in made.items() if task is None]
    assert gone == [before.ids[0], before.ids[3]]
    assert {name: task.question for name, task in made.items() if task is not None} == {
        name: asked[name] for name in asked if name not in gone
    }
    assert {name: task.id for name, task in made.items() if task is not None} == {n: n for n in asked if n not in gone}


def test_a_row_that_says_something_else_is_another_task(tmp_path: Path) -> None:
    folder = rows(tmp_path / "many", 4, ids=True)
    keep_tasks(listed(folder), tmp_path)
    text = (folder / "rows.jsonl").read_text()
    (folder / "rows.jsonl").write_text(text.replace('"answer": "red", "id": "r1"', '"answer": "blue", "id": "r1"'))
    with pytest.raises(TrainingError, match=r"1 of today's say something else or are new, many/r1 first"):
        resumed_tasks(listed(folder), tmp_path)
    (folder / "rows.jsonl").write_text(text)
    assert resumed_tasks(listed(folder), tmp_path).gone == frozenset()


def test_the_limit_counts_each_task_once_and_also_those_of_other_processes(tmp_path: Path) -> None:
    def fails(name: str) -> None:
        def make() -> None:
            raise DataError(f"{name} is broken.")

        assert one.made(name, make) is None  # type: ignore[arg-type]

    one = BrokenTasks(10, 0.2, tmp_path / LEFT_OUT)
    for name in ("a", "a", "b", "a"):
        fails(name)
    assert [json.loads(line)["id"] for line in (tmp_path / LEFT_OUT).read_text().splitlines()] == ["a", "b"]
    other = BrokenTasks(10, 0.2, tmp_path / LEFT_OUT)
    assert list(other.reasons) == ["a", "b"]
    one = other
    with pytest.raises(DataError, match="3 of 10 tasks"):
        fails("c")
    alone = BrokenTasks(2, 0.0)
    one = alone
    fails("a")  # one alone never ends a run
    with pytest.raises(DataError, match="2 of 2"):
        fails("b")


class Stop(RlCallback):
    """Breaks the run off after a step, before its checkpoint."""

    def __init__(self, at: int) -> None:
        self.at = at

    def step(self, number: int, values: object) -> None:
        if number == self.at:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_run_with_pictures_in_later_turns(
    tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch)
    out = tmp_path / "run"
    loss = {"kl_weight": 1e-3, "entropy_weight": 1e-3}
    optimizer = {"learning_rate": 1e-3, "updates": 2, "epochs": 2, "warmup_steps": 2}
    recipe = {"steps": 2, "loss": loss, "optimizer": optimizer}
    more = {"validation": {"every": 2, "source": str(tasks), "tasks": 2}}
    model = train(rl_settings(tiny, tasks, recipe=recipe, **more), out)
    lines = metrics(out)
    assert [line["step"] for line in lines] == [0, 1, 2, 2]
    assert {"validation/accuracy", "validation/reward"} <= lines[0].keys()
    first = lines[1]
    assert first["rollouts"] == 8
    assert first["tool_calls"] == 1
    assert first["turns"] == 2
    assert 0 < first["response_length"] <= 12
    assert first["logprob_gap"] < 1e-5
    assert first["entropy"] > 1
    assert first["updates"] == 4
    assert (first["learning_rate"], lines[2]["learning_rate"]) == (5e-4, 1e-3)
    assert {
        "reward/letters",
        "broken/timeout",
        "seconds/sandbox",
        "seconds/update",
        "clip_fraction",
        "kl",
    } <= first.keys()
    kept = list(read_lines(out / "rollouts" / "trajectories.jsonl", Trajectory))
    assert len({item.id for item in kept}) == len(kept) == 16
    assert {"correct", "reward.letters", "advantage"} <= {score.name for item in kept for score in item.scores}
    before, after = load_file(tiny / "model.safetensors"), load_file(model / "model.safetensors")
    assert any(not before[name].equal(after[name]) for name in after)


def test_broken_off_anywhere_and_resumed_equals_never_broken_off(
    tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    keep, rollouts = {"every": 2, "tensorboard": False}, {"every": 10}  # of the last step they are kept all the same
    settings = rl_settings(tiny, tasks, keep=keep, rollouts=rollouts, recipe={"steps": 3})
    full, cut = tmp_path / "whole", tmp_path / "cut"
    train(settings, full)
    with pytest.raises(KeyboardInterrupt):
        train(settings, cut, callback=Stop(3))
    with pytest.raises(SettingsError, match="holds a run already"):
        train(settings, cut)
    train(settings, cut, resume=True)
    assert (full / "model/model.safetensors").read_bytes() == (cut / "model/model.safetensors").read_bytes()
    assert untimed(full) == untimed(cut)
    names = [[item.id for item in read_lines(out / "rollouts/trajectories.jsonl", Trajectory)] for out in (full, cut)]
    assert names[0] == names[1]
    assert len(names[0]) == 8


def test_recomputed_log_probabilities_stand_in_place_of_the_samplers(
    tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sampler that is off by a constant changes nothing but the gap that is said and checked."""
    toy(monkeypatch, talkative=True)
    recipe = {"steps": 1, "optimizer": {"learning_rate": 1e-3, "updates": 2}, "loss": {"old_logprobs": "recompute"}}
    settings = rl_settings(tiny, tasks, recipe=recipe, max_logprob_diff=0.75)
    plain = Rollout.behaviour_logprobs
    for name, off in (("true", 0.0), ("off", 0.5)):
        monkeypatch.setattr(Rollout, "behaviour_logprobs", lambda self, off=off: plain(self) + np.float32(off))
        train(settings, tmp_path / name)
        assert metrics(tmp_path / name)[0]["logprob_gap"] == pytest.approx(off, abs=1e-3)
    ours, theirs = (load_file(tmp_path / name / "model/model.safetensors") for name in ("true", "off"))
    assert all(ours[name].equal(theirs[name]) for name in ours)


def test_held_out_tasks_are_played_with_limits_of_their_own(
    tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch)
    watched = {"every": 1, "source": str(tasks), "tasks": 2, "limits": {"turns": 1}}
    settings = rl_settings(tiny, tasks, recipe={"steps": 1}, validation=watched)
    train(settings, tmp_path / "run")
    before, step, after = metrics(tmp_path / "run")
    assert (before["validation/turns"], step["turns"], after["validation/turns"]) == (1, 2, 1)


def test_held_out_episodes_are_no_longer_than_what_is_planned(tiny: Path, tasks: Path) -> None:
    limits = {"sampling": {"max_tokens": 6}, "limits": {"context_tokens": 512}}
    watched = {"limits": {"context_tokens": 513}}
    with pytest.raises(SettingsError, match=r"validation\.limits\.context_tokens = 513 is more than the 512"):
        check_settings(rl_settings(tiny, tasks, recipe={"rollout": limits}, validation=watched))


@pytest.mark.slow
def test_adapters_learn_near_the_policy_without_them(
    tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    recipe = {"steps": 2, "loss": {"kl_weight": 0.1}}
    model = {"source": str(tiny), "language": "lora", "lora": {"rank": 2, "dropout": 0.5}}
    out = tmp_path / "run"
    train(rl_settings(tiny, tasks, recipe=recipe, model=model), out)
    first, second = metrics(out)
    assert first["kl"] == pytest.approx(0, abs=1e-9)
    assert second["kl"] > 1e-6
    assert second["logprob_gap"] < 1e-4


def test_sampling_and_training_that_disagree_end_the_run(
    tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    with pytest.raises(TrainingError, match="between sampling and training"):
        train(rl_settings(tiny, tasks, max_logprob_diff=1e-12), tmp_path / "run")


def test_other_tasks_are_refused_when_a_run_goes_on(
    tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    settings = rl_settings(tiny, tasks, recipe={"steps": 1})
    train(settings, tmp_path / "run")
    fewer = settings.model_copy(update={"tasks": settings.tasks.model_copy(update={"most": 2})})
    with pytest.raises(SettingsError, match=r"tasks\.most"):
        train(fewer, tmp_path / "run", resume=True)


class Counting(RlCallback):
    """Hears how many tasks there are."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def takes(self, sources: Sequence[str]) -> None:
        self.heard += sources
        raise KeyboardInterrupt  # nothing need be learnt


def test_all_tasks_of_a_file_are_taken_and_a_run_says_how_many(
    tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    heard = Counting()
    settings = rl_settings(tiny, tasks, recipe={"steps": 1})
    fewer = settings.model_copy(update={"tasks": settings.tasks.model_copy(update={"most": 2})})
    for number, wanted in enumerate((settings, fewer)):
        with pytest.raises(KeyboardInterrupt):
            train(wanted, tmp_path / str(number), callback=heard)
    some = f"{tasks}: 2 tasks (left out: 3 more than the most that are wanted)"
    assert heard.heard == [f"{tasks}: 5 tasks", some]


def test_no_task_of_a_large_file_is_left_out_in_silence(tmp_path: Path) -> None:
    write_lines(tmp_path / "tasks.jsonl", [Task(id=f"t{number}", question="?") for number in range(5000)])
    assert (len(open_tasks([str(tmp_path)])), open_tasks([str(tmp_path)], SourceDefaults(most=9)).total) == (5000, 5000)
    world = open_tasks(["visual-search"])
    assert (len(world), world.total) == (4096, None)
    write_lines(tmp_path / "tasks.jsonl", [Task(id="same", question="?")] * 2)
    with pytest.raises(SettingsError, match="two tasks with the id 'same'"):
        open_tasks([str(tmp_path)])


class StopChoosing(RlCallback):
    """Breaks the run off while a curriculum chooses."""

    def choosing(self, done: int, total: int) -> None:
        raise KeyboardInterrupt


@pytest.mark.slow
def test_tasks_that_were_rolled_out_for_a_curriculum_are_not_rolled_out_again(
    tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    asked: list[list[int]] = []
    measured = curriculum.measure_pass_rates

    async def counted(trainer: Trainer, tasks: TaskList, places: range) -> dict[str, tuple[float | None, int]]:
        asked.append(list(places))
        return await measured(trainer, tasks, places)

    monkeypatch.setattr(curriculum, "measure_pass_rates", counted)
    settings = rl_settings(tiny, tasks, recipe={"steps": 1, "curriculum": {"highest": 0.5}})
    full, cut = tmp_path / "whole", tmp_path / "cut"
    train(settings, full)
    assert asked == [[0, 1], [2, 3], [4]]
    with pytest.raises(KeyboardInterrupt):
        train(settings, cut, callback=StopChoosing())
    with (cut / PASS_RATES).open("a") as file:
        file.write('{"id":"t2","ra')
    train(settings, cut, resume=True)
    assert asked[3:] == [[0, 1], [2, 3], [4]]
    assert (full / PASS_RATES).read_bytes() == (cut / PASS_RATES).read_bytes()
    assert untimed(full) == untimed(cut)
    assert [item.id for item in read_lines(cut / PASS_RATES, TaskPassRate)] == ["t0", "t1", "t2", "t3", "t4"]


@pytest.mark.slow
def test_a_curriculum_without_a_task_in_its_band_says_so(
    tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    with pytest.raises(TrainingError, match=r"pass rate from 0\.5"):
        train(rl_settings(tiny, tasks, recipe={"curriculum": {"lowest": 0.5}}), tmp_path / "run")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_is_paid_for_is_learned(tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy(monkeypatch, talkative=True)
    rollout = {"group_size": 16, "sampling": {"temperature": 1.0, "max_tokens": 8}}
    recipe = {"steps": 40, "rollout": rollout, "optimizer": {"learning_rate": 3e-3}}
    out = tmp_path / "run"
    train(rl_settings(tiny, tasks, recipe=recipe, keep={"every": 40, "tensorboard": False}), out)
    rewards = [line["reward/letters"] for line in metrics(out)]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.2
