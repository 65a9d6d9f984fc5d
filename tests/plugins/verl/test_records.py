"""What a run on verl reads and writes: rows, configuration, numbers under our names."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.verl.support import cluster, verl_settings
from tests.rewards.rollouts import answered, rollout
from tests.training.rl.train.support import metrics

from saccade.errors import SettingsError, TrainingError, UnavailableError
from saccade.models.local_text import learned_dialect
from saccade.plugins.verl import launch
from saccade.plugins.verl.agent_loop import Carried
from saccade.plugins.verl.launch import VerlJournal, new_log, prepare, write_metrics
from saccade.plugins.verl.mapping import training_rows, validation_rows
from saccade.plugins.verl.said import SAID, SaidAgain, keep_warnings
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.record.codec import read_lines
from saccade.record.trajectory import Score, Trajectory
from saccade.rewards.reward import Reward
from saccade.tasks.benchmarks.row_files import load_pyarrow
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.task_set import open_tasks
from saccade.training.rl.rollout import Rollout, group_of
from saccade.training.rl.select import KeepAll
from saccade.training.rl.tasks import as_list, validation_tasks


def tasks() -> Any:
    return as_list(open_tasks(["touching-circles"], SourceDefaults(split="train", most=5)))


def test_rows_are_the_tasks_in_the_order_of_our_own_trainer() -> None:
    settings, found = verl_settings({"rounds": {"tasks": 2, "groups": 2, "rounds": 3}, "seed": 4}), tasks()
    rows = training_rows(settings, found)
    assert len(rows) == 3 * 2 * 3  # steps, tasks of a round, rounds
    assert [row["extra_info"]["task"] for row in rows] == [found.at(place, 4) for place in range(18)]
    assert {row["extra_info"]["task"] for row in rows[:5]} == set(found.ids)
    assert [row["extra_info"]["index"] for row in rows] == list(range(18))
    held_out = validation_rows(found)
    assert [row["extra_info"]["task"] for row in held_out] == list(found.ids)
    assert all(row["extra_info"]["validation"] for row in held_out)
    assert len(validation_rows(None)) == 1


def line(step: int, **data: Any) -> str:
    return json.dumps({"step": step, "data": data}) + "\n"


def test_logs_of_several_starts_become_one_journal(tmp_path: Path) -> None:
    (tmp_path / "verl").mkdir()
    first = new_log(tmp_path)
    ours = {"saccade/reward": 0.5, "saccade/trained_rollouts": 8.0}
    first.write_text(
        line(0, **{"val-core/held-out/reward/mean@1": 0.0})
        + line(1, **ours, **{"actor/loss": 0.1, "actor/grad_norm": 2.0, "timing_s/gen": 3.0, "perf/mfu/actor": 9.0})
        + line(2, **ours)
        + '{"step": 3, "da'
    )
    second = new_log(tmp_path)
    assert second != first
    nothing = {"saccade/reward": 0.25, "saccade/trained_rollouts": 0.0}
    second.write_text(line(2, **nothing, **{"actor/lr": 1e-3}) + line(3, **ours))
    answers = {"step": 2, "values": {"accuracy": 1.0}, "samples": [{"id": "a", "wrote": "Yes", "expected": "Yes"}]}
    (tmp_path / "verl" / "validations.jsonl").write_text(json.dumps(answers) + "\n")
    assert write_metrics(tmp_path, 6) == 3
    assert metrics(tmp_path) == [
        {
            "step": 1,
            "reward": 0.5,
            "trained_rollouts": 8.0,
            "loss": 0.1,
            "gradient_norm": 2.0,
            "seconds/rollouts": 3.0,
            "updates": 6,
        },
        {"step": 2, "reward": 0.25, "trained_rollouts": 0.0, "learning_rate": 1e-3, "updates": 0},
        {"step": 2, "validation/accuracy": 1.0},
        {"step": 3, "reward": 0.5, "trained_rollouts": 8.0, "updates": 6},
    ]
    assert json.loads((tmp_path / "samples.jsonl").read_text())["wrote"] == "Yes"


def played(place: int, number: int, value: float) -> Rollout:
    trajectory = rollout(answered("Yes"))
    named = trajectory.model_copy(update={"id": f"t#{place * 2 + number}", "group": f"t@{place}"})
    return Rollout(named, reward=Reward(parts=(Score(name="accuracy", value=value),)))


def test_a_resumed_run_drops_the_rollouts_that_it_plays_again(tmp_path: Path) -> None:
    settings = verl_settings(rollouts={"every": 1})
    (tmp_path / "verl").mkdir()

    def step(journal: VerlJournal, number: int, place: int) -> dict[str, float]:
        rollouts = [played(place, n, float(n)) for n in range(2)]
        carried = [Carried(item, 1.0, 0.5, replayed=3) for item in rollouts]
        return journal.step(number, rollouts, KeepAll()([group_of(rollouts)]), carried, 2.0)

    journal = VerlJournal(tmp_path, settings)
    values = step(journal, 1, 0)
    assert values["saccade/reward"] == 0.5
    assert values["saccade/replayed"] == 3
    assert not {"saccade/updates", "saccade/learning_rate"} & values.keys()
    step(journal, 2, 1)
    step(VerlJournal(tmp_path, settings), 2, 1)
    kept = [item.id for item in read_lines(tmp_path / "rollouts" / "trajectories.jsonl", Trajectory)]
    assert kept == ["t#0", "t#1", "t#2", "t#3"]


def test_a_rollout_travels_as_it_is() -> None:
    carried = Carried(played(3, 1, 0.5), 1.0, 2.0, 1)
    assert Carried.unpacked({"other": 1, **carried.packed()}) == carried


def test_without_verl_the_run_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="environment"):
        launch.train_on_verl(verl_settings(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_several_machines_need_a_cluster_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(launch, "_need_verl", lambda: None)
    with pytest.raises(SettingsError, match=r"trainer\.nodes is 2.*RAY_ADDRESS"):
        launch.train_on_verl(verl_settings(trainer={"nodes": 2, "gpus": 4}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_that_stands_still_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """verl waits for ever for a server that died while it was given new weights."""
    monkeypatch.setattr(launch, "_LOOK", 0.1)
    (tmp_path / "verl").mkdir()
    sleeper = tmp_path / "sleeps.py"
    sleeper.write_text("print('waiting', flush=True); import time; time.sleep(600)")
    monkeypatch.setattr(launch, "_command", lambda folder: [launch.sys.executable, str(sleeper)])
    last_change, log = launch._last_change, tmp_path / "verl" / "verl.log"
    # The clock runs from the program's first word on, for its start may be slow.
    monkeypatch.setattr(launch, "_last_change", lambda out: last_change(out) if log.read_text() else launch.time.time())
    with pytest.raises(TrainingError, match=r"stood still .*waiting"):
        launch._watched(verl_settings(trainer={"step_seconds": 1.0}), tmp_path, {})


def test_the_last_error_of_verl_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_LOOK", 0.1)
    (tmp_path / "verl").mkdir()
    fails = "print('ray.exceptions.RayTaskError(X): a'); print('torch.SomeError: the cause'); print('more'); exit(3)"
    monkeypatch.setattr(launch, "_command", lambda folder: [launch.sys.executable, "-c", fails])
    with pytest.raises(TrainingError, match=r"code 3\. torch\.SomeError: the cause \(.*verl\.log\)"):
        launch._watched(verl_settings(), tmp_path, {})


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """Our logger, which is afterwards as it was; the root lets errors alone pass, as in verl's workers."""
    root, logger = logging.getLogger(), logging.getLogger("saccade")
    levels = root.level, logger.level
    monkeypatch.setattr(logger, "handlers", list(logger.handlers))
    root.setLevel(logging.ERROR)
    yield logger
    root.setLevel(levels[0])
    logger.setLevel(levels[1])


def test_warnings_of_other_processes_are_said_again_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ours: logging.Logger
) -> None:
    (tmp_path / "verl").mkdir()
    file = tmp_path / "verl" / SAID
    said = SaidAgain(tmp_path)
    said.say()
    handlers = list(ours.handlers)
    keep_warnings(tmp_path)
    keep_warnings(tmp_path)
    logging.getLogger("saccade.sandbox.pool").warning("a host is %s", "gone")
    logging.getLogger("saccade.sandbox.pool").info("not worth a line")
    ours.handlers = handlers
    assert len(file.read_text().splitlines()) == 1
    caplog.clear()
    text = file.read_text()
    file.write_text(text + text[:20])
    said.say()
    said.say()
    assert caplog.messages == ["a host is gone"]
    assert caplog.records[0].name == "saccade.sandbox.pool"
    file.write_text(text + text)
    said.say()
    assert caplog.messages == ["a host is gone"] * 2
    SaidAgain(tmp_path).say()  # of a run that is resumed: what was said before is not said again
    assert len(caplog.messages) == 2


def test_a_warning_that_cannot_be_kept_is_said_on_the_spot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ours: logging.Logger
) -> None:
    (tmp_path / "verl" / SAID).mkdir(parents=True)
    keep_warnings(tmp_path)
    ours.warning("a host is gone")
    said = capsys.readouterr().err
    assert "Logging error" in said
    assert "a host is gone" in said


ENDS = """
import json, os, pathlib, sys
steps, out = int(sys.argv[1]), pathlib.Path(sys.argv[2])
with open(os.environ["VERL_FILE_LOGGER_PATH"], "w") as log:
    for step in range(1, steps + 1):
        log.write(json.dumps({"step": step, "data": {"saccade/reward": 0.5}}) + "\\n")
made = out / "checkpoints" / f"global_step_{steps}" / "actor" / "huggingface"
made.mkdir(parents=True)
(made / "config.json").write_text("{}")
(made.parents[1] / "data.pt").touch()
for part in ("model", "optim", "extra_state"):
    for rank in range(2):
        (made.parent / f"{part}_world_size_2_rank_{rank}.pt").touch()
(out / "checkpoints" / "latest_checkpointed_iteration.txt").write_text(f"{steps}\\n")
"""
"""What verl leaves of a run of so many steps by two processes."""


def test_a_run_that_verl_ended_early_goes_on_and_leaves_a_checkpoint_of_our_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, done = (tmp_path / "run").resolve(), iter((2, 3))
    monkeypatch.setattr(launch, "_LOOK", 0.1)
    monkeypatch.setattr(launch, "_need_verl", lambda: None)
    monkeypatch.setattr(launch, "_command", lambda _: [launch.sys.executable, "-c", ENDS, str(next(done)), str(out)])
    save_tiny(tmp_path / "tiny")
    source = {"source": str(tmp_path / "tiny")}
    few = {"source": "touching-circles", "most": 2}
    settings = verl_settings(tasks=few, validation={"every": 0}, model=source, trainer={"gpus": 2})
    with cluster(monkeypatch):
        with pytest.raises(TrainingError, match="verl ended after 2 of 3 steps"):
            launch.train_on_verl(settings, out)
        assert not (out / "model").exists()
        assert launch.train_on_verl(settings, out, resume=True) == out / "model"
    assert (out / "model" / "config.json").read_text() == "{}"
    assert learned_dialect(out / "model") == "tiny@1:look"
    assert [line["step"] for line in metrics(out)] == [1, 2, 3]


def test_a_family_whose_pictures_verl_s_servers_would_misread_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_need_verl", lambda: None)
    save_tiny(tmp_path / "tiles", "internvl")
    with pytest.raises(SettingsError, match=r"of the family internvl\. .* qwen2_5_vl, .*without --on verl"):
        launch.train_on_verl(
            verl_settings(model={"source": str(tmp_path / "tiles")}, trainer={"device": "cpu"}), tmp_path / "run"
        )
    assert not (tmp_path / "run" / "verl").exists()


@pytest.mark.parametrize(("every", "held_out"), [(0, ["none"]), (5, None)])
def test_held_out_rows_are_those_of_the_validation_splits(
    every: int, held_out: list[str] | None, tmp_path: Path
) -> None:
    prepare(verl_settings(validation={"every": every, "tasks": 3}), tmp_path, [])
    rows = load_pyarrow()[1].read_table(tmp_path / "verl" / "validation.parquet").to_pylist()
    found = [row["extra_info"]["task"] for row in rows]
    expected = validation_tasks((), ("touching-circles",), 3)
    assert expected is not None
    assert found == (held_out or list(expected.ids))


def test_what_verl_reads_is_written(tmp_path: Path) -> None:
    settings = verl_settings(max_logprob_diff=0.5, trainer={"device": "cpu", "gpus": 2}, validation={"every": 0})
    prepare(settings, tmp_path, training_rows(settings, tasks()))
    config = json.loads((tmp_path / "verl" / "run.yaml").read_text())
    assert config["defaults"] == ["ppo_trainer", "_self_"]
    assert config["trainer"]["n_gpus_per_node"] == 2
    assert list(config["ray_kwargs"]["ray_init"]) == ["runtime_env"]  # a cluster that is there takes no other option
    variables = config["ray_kwargs"]["ray_init"]["runtime_env"]["env_vars"]
    assert variables["VERL_PLATFORM"] == "cpu"
    assert variables["SACCADE_VERL_MAX_LOGPROB_DIFF"] == "0.5"
    (loop,) = json.loads((tmp_path / "verl" / "loop.yaml").read_text())
    assert loop == {"name": "saccade", "_target_": "saccade.plugins.verl.loop.SaccadeLoop", "out": str(tmp_path)}
    assert (tmp_path / "settings.toml").exists()
