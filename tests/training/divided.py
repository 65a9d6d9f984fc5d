"""Two updates of a tiny checkpoint in however many processes, and what they lead to. Run by `test_memory.py`.

python -m tests.training.divided CHECKPOINT OUT PROCESSES SCENARIO...
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from tests.training.sft.train.support import trajectory

from saccade.episode.run_folder import RunFolder
from saccade.tokens.batch import BatchRow, Collator, token_row, token_trajectory
from saccade.tokens.pictures import PictureTensors
from saccade.training.checkpoints import Checkpoints, RunState
from saccade.training.launch import launch
from saccade.training.learner import make_learner, own_part
from saccade.training.parallel import Processes
from saccade.training.settings import KeepSettings, ModelSettings, OptimizerSettings
from saccade.training.weights import Trainable, export, load_trainable

SCENARIOS: dict[str, tuple[dict[str, Any], str]] = {
    "full": ({"vision": "full", "gradient_checkpointing": True}, "adamw"),
    "bfloat16": ({"precision": "bfloat16"}, "adamw"),
    "lora": ({"language": "lora", "lora": {"dropout": 0.0, "rank": 4}}, "adamw"),
    "muon": ({}, "muon"),
}
"""Settings of the model, and the method of the optimizer."""
PASSES = ([2, 0], [0], [1])
"""The first has a picture, and two rows packed into one; of two processes one has a pass less."""
CLIP = 0.5


def rows(trained: Trainable, run: RunFolder) -> list[BatchRow]:
    """Two of text alone, and one with pictures."""
    shown = token_row(token_trajectory(trajectory(run, 1, looks=1), trained.encoder))
    made = []
    for text in ("Look at the picture and say what is written.", "The text is small."):
        ids = torch.tensor(trained.encoder.text(text)).numpy()
        learned = ids >= 0
        learned[0] = False
        made.append(BatchRow(text, ids, learned, ()))
    return [*made, shown]


def local_bytes(tensors: Iterable[torch.Tensor | None]) -> int:
    """What this process keeps of them."""
    return sum(own_part(tensor.detach()).nbytes for tensor in tensors if tensor is not None)


def play(checkpoint: str, out: str, names: tuple[str, ...]) -> None:
    """Every scenario, in this process of however many."""
    torch.set_num_threads(1)
    processes = Processes(cpu=True)
    for name in names:
        scenario(Path(checkpoint), Path(out) / name, name, processes)


def scenario(checkpoint: Path, out: Path, name: str, processes: Processes) -> None:
    model, method = SCENARIOS[name]
    settings = ModelSettings(source=str(checkpoint), shard=True, **model)
    trained = load_trainable(settings, processes.device, 0)
    run = RunFolder(out / f"run-{processes.rank}")
    learned = rows(trained, run)
    collate = Collator(trained.encoder, PictureTensors(trained.encoder, run.store), trained.model, packed=trained.packs)
    optimizer = OptimizerSettings.model_validate({"method": method, "learning_rate": 1e-3})
    learner = make_learner(trained, optimizer, processes, shard=True)
    checkpoints = Checkpoints(out / "checkpoints", KeepSettings(checkpoints=9), processes)
    if (stored := checkpoints.latest()) is not None:  # of a run of before, by however many processes
        learner.restore(stored[1], stored[2])
    trained.model.train()
    norms = []
    for _ in range(2):
        for item in learner.share_passes(PASSES, [3.0, 1.0, 1.0]):
            own = [learned[at] for at in item.rows]
            batch = collate(own)
            with trained.autocast():
                scores = trained.scorer(batch, batch.lay_out([row.trained for row in own], False))
            learner.backward(-scores.logprobs.sum() / 10 - scores.entropy.sum() / 100, counts=item.counts)
        norms.append(learner.gradient_norm(CLIP))
        gradients = local_bytes([weight.grad for weight in trained.model.parameters()])
        learner.step(1.0)
    weights = local_bytes(trained.model.parameters())
    state = learner._optimizer.state.values()
    optimizer_bytes = local_bytes([value for values in state for value in values.values() if value.ndim])
    done = 0 if stored is None else stored[0].step
    learner.save(checkpoints, RunState(done + 2, 0, "data"))
    checkpoints.finish()
    with learner.gathered(), torch.inference_mode(), trained.autocast():  # by itself: the first process alone
        hidden = None
        if processes.is_main:
            ids = torch.from_numpy(learned[0].ids)[None]
            hidden = trained.model.model(input_ids=ids, use_cache=False).last_hidden_state.float()
    finished = learner.finished()
    if finished is not None:
        export(finished, out / "model", "float32")
        assert hidden is not None
        held = {"weights": weights, "gradients": gradients, "optimizer": optimizer_bytes}
        said = {"norms": norms, "hidden": hidden[0, -1].tolist(), "bytes": held}
        (out / f"said-{done + 2}.json").write_text(json.dumps(said))
    processes.barrier()


if __name__ == "__main__":
    _, source, folder, count, *chosen = sys.argv
    Image.init()
    launch(play, (source, folder, tuple(chosen)), int(count))
