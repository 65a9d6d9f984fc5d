"""The loss against the textbook's, checkpoints on disk, the journal, groups of weights."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.training.sft.train.support import settings

from saccade.core.disk import begin_folder
from saccade.errors import TrainingError, UnavailableError
from saccade.tokens.batch import Collator, forward_passes
from saccade.tokens.pictures import PictureTensors
from saccade.training import checkpoints
from saccade.training.checkpoints import Checkpoints, RunState
from saccade.training.learner import make_learner, make_optimizer, rate_fraction
from saccade.training.parallel import Processes
from saccade.training.run import TrainingJournal
from saccade.training.settings import KeepSettings, OptimizerSettings
from saccade.training.sft.examples import ManyStores, read_examples
from saccade.training.sft.run import step_rows, token_loss, token_weights, total_steps
from saccade.training.weights import TokenScorer, Trainable, load_trainable


@pytest.fixture
def trained(tiny: Path) -> Trainable:
    torch.set_num_threads(1)
    return load_trainable(settings(tiny).model, torch.device("cpu"), seed=0)


def test_the_loss_is_that_of_the_whole_softmax(trained: Trainable, tiny: Path, run: Path) -> None:
    row = max(read_examples(settings(tiny, run), trained.encoder).train, key=len)
    pictures = PictureTensors(trained.encoder, ManyStores([str(run)]))
    batch = Collator(trained.encoder, pictures, trained.model, packed=False)([row])
    with torch.no_grad():
        logits = trained.model(input_ids=batch.ids, position_ids=batch.positions, **batch.pictures).logits[0].double()
    wanted = np.flatnonzero(row.trained)
    none = torch.zeros_like(trained.checkpoint.forbidden)
    for forbidden in (none, trained.checkpoint.forbidden):
        scorer = TokenScorer(trained.model, forbidden, chunk=7)
        allowed = logits.masked_fill(forbidden, -torch.inf)
        logprobs = torch.log_softmax(allowed, -1)
        expected = -sum(float(logprobs[at - 1, row.ids[at]]) for at in wanted)
        found = token_loss(scorer, batch, batch.lay_out([row.trained], False))
        assert float(found.total.detach()) == pytest.approx(expected, rel=1e-5)
        assert found.right == sum(int(allowed[at - 1].argmax()) == row.ids[at] for at in wanted)
        weights = np.linspace(0, 1, len(row), dtype=np.float32)
        expected = -sum(float(weights[at] * logprobs[at - 1, row.ids[at]]) for at in wanted)
        placed = batch.lay_out([weights], 0.0)
        found = token_loss(scorer, batch, batch.lay_out([row.trained], False), placed)
        assert float(found.total.detach()) == pytest.approx(expected, rel=1e-5)


def test_what_tokens_count(trained: Trainable, tiny: Path, run: Path) -> None:
    rows = read_examples(settings(tiny, run), trained.encoder).train[:3]
    learned = [int(row.trained.sum()) for row in rows]
    assert len(set(learned)) > 1
    by_token, by_trajectory = token_weights(rows, "tokens"), token_weights(rows, "trajectories")
    for row, own, one, other in zip(rows, learned, by_token, by_trajectory, strict=True):
        assert one == pytest.approx(row.trained / sum(learned))
        assert other == pytest.approx(row.trained / (3 * own))


def test_groups_of_weights(trained: Trainable) -> None:
    chosen = OptimizerSettings(learning_rate=1e-3, vision_learning_rate=1e-4, weight_decay=0.1)
    groups = make_optimizer(trained, chosen, trained.parameters()).param_groups
    assert {(group["base_lr"], group["weight_decay"]) for group in groups} == {
        (1e-3, 0.1),
        (1e-3, 0.0),
        (1e-4, 0.1),
        (1e-4, 0.0),
    }
    assert all((group["weight_decay"] > 0) == (value.ndim >= 2) for group in groups for value in group["params"])
    assert sum(len(group["params"]) for group in groups) == len(trained.parameters())


def test_checkpoints_appear_whole_and_the_old_ones_go_but_milestones(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path, KeepSettings(checkpoints=2, milestones=4), Processes(cpu=True))
    assert kept.latest() is None
    for step in (1, 2, 4, 6, 10):
        kept.save(RunState(step, 7 * step, "data"), {"w": torch.full((2,), float(step))}, {"w/step": torch.tensor(1.0)})
    kept.finish()
    (tmp_path / ".step-00000011.part").mkdir()  # as a kill leaves it
    assert sorted(path.name for path in tmp_path.glob("step-*")) == ["step-00000004", "step-00000006", "step-00000010"]
    found = kept.latest()
    assert found is not None
    state, weights, optimizer = found
    assert state == RunState(10, 70, "data")
    assert weights["w"].tolist() == [10.0, 10.0]
    assert optimizer["w/step"].shape == ()
    (tmp_path / "step-00000010" / "weights.safetensors").write_bytes(b"torn")
    with pytest.raises(TrainingError, match="step-00000010"):
        kept.latest()


def test_a_kill_while_a_checkpoint_is_written_leaves_the_last_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill leaves the disk as it is after any file, which is copied aside."""
    kept = Checkpoints(tmp_path / "run", KeepSettings(), Processes(cpu=True))
    save_file, written = checkpoints.save_file, []

    def save(tensors: dict[str, torch.Tensor], path: Path) -> None:
        save_file(tensors, path)
        written.append(shutil.copytree(tmp_path / "run", tmp_path / str(len(written))))

    monkeypatch.setattr(checkpoints, "save_file", save)
    for step in (1, 2):
        kept.save(RunState(step, 0, "data"), {"w": torch.ones(2) * step}, {"w/step": torch.tensor(1.0)})
    kept.finish()
    assert len(written) == 4
    for folder in written[2:]:
        found = Checkpoints(folder, KeepSettings(), Processes(cpu=True)).latest()
        assert found is not None
        assert (found[0].step, found[1]["w"].tolist()) == (1, [1.0, 1.0])


def test_a_checkpoint_is_written_beside_the_next_step(
    trained: Trainable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the weights as they were when it was begun; what the disk refuses is said when it is waited for."""
    learner = make_learner(trained, OptimizerSettings(), Processes(cpu=True), shard=False)
    kept, go_on = Checkpoints(tmp_path, KeepSettings(), Processes(cpu=True)), Event()
    monkeypatch.setattr(checkpoints, "begin_folder", lambda folder: (go_on.wait(60), begin_folder(folder)))
    name, weight = next(iter(trained.parameters().items()))
    before = weight.detach().clone()
    learner.save(kept, RunState(1, 0, "data"))
    assert kept.finish(wait=False) is None
    with torch.no_grad():
        weight.zero_()
    go_on.set()
    assert kept.finish() == tmp_path / "step-00000001"
    assert kept.finish() is None
    found = kept.latest()
    assert found is not None
    assert torch.equal(found[1][name], before)
    (tmp_path / "step-00000002").write_text("no folder")
    learner.save(kept, RunState(2, 0, "data"))
    with pytest.raises(OSError, match="step-00000002"):
        kept.finish()


def test_the_journal_forgets_what_lies_beyond_the_checkpoint(tmp_path: Path) -> None:
    quiet = KeepSettings(tensorboard=False)
    journal = TrainingJournal(tmp_path, quiet, 0, {})
    for step in (1, 2, 3):
        journal.metrics(step, {"loss": 1 / step})
    journal.sample(3, {"wrote": "ä"})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 1, "lo')
    TrainingJournal(tmp_path, quiet, 2, {})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2]
    assert (tmp_path / "samples.jsonl").read_text() == ""


def test_a_tracker_hears_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    fake = ModuleType("trackio")
    fake.init = lambda **options: heard.append(options)  # type: ignore[attr-defined]
    fake.log = lambda values, step: heard.append((step, values))  # type: ignore[attr-defined]
    fake.finish = lambda: heard.append("finished")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trackio", fake)
    keep = KeepSettings(tensorboard=False, tracker="trackio", project="p")
    (tmp_path / "run").mkdir()
    journal = TrainingJournal(tmp_path / "run", keep, 0, {"seed": 1})
    journal.metrics(1, {"loss": 2.0})
    journal.close()
    assert heard == [{"project": "p", "name": "run", "config": {"seed": 1}}, (1, {"loss": 2.0}), "finished"]
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UnavailableError, match="pip install wandb"):
        TrainingJournal(tmp_path / "run", KeepSettings(tensorboard=False, tracker="wandb"), 0, {})


def test_every_epoch_sees_every_row_once() -> None:
    seen = [row for step in range(7) for row in step_rows(step, 10, 3, seed=1)]
    assert sorted(seen[:10]) == sorted(seen[10:20]) == list(range(10))
    assert seen[:10] != seen[10:20]
    assert step_rows(4, 10, 3, seed=1) == seen[12:15]
    assert step_rows(0, 10, 10, seed=2) != seen[:10]


def test_a_step_may_be_larger_than_the_data() -> None:
    assert sorted(step_rows(0, 2, 5, seed=0))[:2] == [0, 0]


def test_steps_follow_from_epochs_or_are_given() -> None:
    assert total_steps(10, 4, epochs=1.0, steps=0) == 3
    assert total_steps(10, 4, epochs=2.0, steps=0) == 5
    assert total_steps(10, 4, epochs=2.0, steps=7) == 7
    assert total_steps(1, 4, epochs=0.01, steps=0) == 1


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 120), st.booleans())
def test_forward_passes_hold_every_row_within_the_limit(lengths: list[int], most: int, packed: bool) -> None:
    groups = forward_passes(lengths, most, packed=packed)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        sizes = [lengths[index] for index in group]
        laid = sum(sizes) if packed else max(sizes) * len(sizes)
        assert laid <= most or len(group) == 1


def test_the_learning_rate_rises_and_falls() -> None:
    settings = OptimizerSettings(warmup=0.2, final_fraction=0.1)
    rates = [rate_fraction(step, 100, settings) for step in range(100)]
    assert rates[0] == pytest.approx(1 / 20)
    assert rates[19] == rates[20] == 1.0
    assert all(np.diff(rates[20:]) < 0)
    assert 0.1 < rates[-1] < 0.11
    assert rate_fraction(0, 1, OptimizerSettings(warmup=0.0)) == 1.0
