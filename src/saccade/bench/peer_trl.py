"""TRL's GRPOTrainer as a peer: the turns that it samples, and its update.

`make parity` installs it into a folder of its own: PYTHONPATH=.venv/parity saccade bench rollout. Its environments do
not play these episodes: they want a chat template with tool calls, which Qwen2.5-VL's is not, and continue only after a
call in JSON; a `rollout_func` cannot give pictures of later turns to the loss. So it gets our episodes: what its
tool loop does for a turn (preparing all pictures, then its own generation on the whole context), and its own training
steps on the same tokens, mask, log-probabilities and advantages. Running tools and reading calls is left out.
"""

from __future__ import annotations

import copy
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from transformers import PrinterCallback, TrainerCallback

from saccade.bench.rollout_work import RolloutScale, before
from saccade.errors import UnavailableError
from saccade.media.store import MediaStore
from saccade.models.pictures import decoded_picture
from saccade.rl.rollout import Rollout
from saccade.tokens.batch import token_row
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.segments import TokenTrajectory, image_parts
from saccade.training.weights import Trainable

T = TypeVar("T")

INSTALL = "make parity; then PYTHONPATH=.venv/parity saccade bench rollout"


_SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-12,
    "lr_scheduler_type": "constant",
    "max_grad_norm": 1.0,
    "beta": 0.0,
    "loss_type": "dapo",
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "logging_strategy": "no",
    "disable_tqdm": True,
}
"""As our update has it, and nothing written; the learning rate leaves the policy as it is."""


class TrlPeer:
    """One trainer over a copy of the weights."""

    def __init__(self, trained: Trainable, scale: RolloutScale, rows: int, steps: int) -> None:
        """Training steps see `rows` rollouts in one forward pass; the first of `steps` is not counted.

        Raises:
            UnavailableError: TRL is not installed.
        """
        try:
            import trl
            from datasets import Dataset
        except ImportError as missing:
            raise UnavailableError(f"TRL is not installed. Run: {INSTALL}") from missing
        self._folder = tempfile.TemporaryDirectory(prefix="saccade-bench-trl-")
        self._trained = trained
        self._scale = scale
        self._clock = _Clock()
        settings = {
            "output_dir": self._folder.name,
            "per_device_train_batch_size": rows,
            "gradient_accumulation_steps": scale.tasks * scale.group // rows,
            "num_generations": scale.group,
            "max_steps": steps,
            "max_completion_length": scale.tokens,
            "generation_kwargs": {"suppress_tokens": torch.nonzero(trained.checkpoint.forbidden)[:, 0].tolist()},
            "use_cpu": trained.checkpoint.device.type == "cpu",
            "bf16": trained.low_precision,
        }
        self._trainer: Any = _quietly(
            lambda: _prepared(trl.GRPOTrainer)(
                model=copy.deepcopy(trained.model),
                reward_funcs=lambda completions, **columns: [0.0] * len(completions),
                processing_class=trained.checkpoint.tokenizer,
                callbacks=[self._clock],
                train_dataset=Dataset.from_dict({"prompt": ["look"] * scale.tasks}),
                args=trl.GRPOConfig(**settings, **_SETTINGS),
            )
        )
        self._trainer.remove_callback(PrinterCallback)

    def turns(self, tokens: Sequence[TokenTrajectory], store: MediaStore) -> tuple[int, float]:
        """Tokens that it samples in all turns, and seconds; pictures are decoded before."""
        trainer, encoder = self._trainer, self._trained.encoder
        shown = [part for item in tokens for part in image_parts(item.pictures, "TRL's trainer")]
        decoded = {part.sha256: decoded_picture(part, store) for part in shown}
        began, count = time.perf_counter(), 0
        for turn in range(self._scale.turns):
            rows = [before(item, turn) for item in tokens]
            ids = [row.ids().tolist() for row in rows]
            images = [[decoded[picture.part.sha256] for picture in row.pictures] for row in rows]
            flat = [image for part in images for image in part]
            fields = dict(encoder.image_processor(images=flat, return_tensors="pt"))
            fields["mm_token_type_ids"] = [[int(token == encoder.placeholder_id) for token in row] for row in ids]
            sampled, _ = _quietly(partial(trainer._generate_single_turn, ids, images, fields, num_generations=1))
            count += sum(map(len, sampled))
        return count, time.perf_counter() - began

    def update(self, rollouts: Sequence[Rollout], media: MediaStore) -> float:
        """Seconds of a training step, the median after the first."""
        self._trainer.prepared = _batch(rollouts, self._trained, media)
        _quietly(self._trainer.train)
        return statistics.median(self._clock.seconds[1:])

    def close(self) -> None:
        """Remove what it wrote."""
        self._folder.cleanup()


def _quietly(work: Callable[[], T]) -> T:
    """What `work` gives, without warnings of what it uses and who has deprecated it."""
    with warnings.catch_warnings(action="ignore"):
        return work()


def _prepared(trainer: Any) -> Any:
    """The trainer, which gets its rollouts from outside."""

    class Prepared(trainer):  # type: ignore[misc]
        prepared: dict[str, Any]

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            return dict(self.prepared)

    return Prepared


class _Clock(TrainerCallback):  # type: ignore[misc]
    """Takes the time of every training step, its forward passes and its optimizer's step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._began = 0.0

    def on_step_begin(self, *given: Any, **named: Any) -> None:
        self._began = time.perf_counter()

    def on_step_end(self, *given: Any, **named: Any) -> None:
        self.seconds.append(time.perf_counter() - self._began)


def _batch(rollouts: Sequence[Rollout], trained: Trainable, media: MediaStore) -> dict[str, Any]:
    """What TRL's generation would have handed to its loss: completions begin with the first sampled token."""
    encoder = trained.encoder
    rows = [token_row(item.trained_tokens()) for item in rollouts]
    starts = [int(row.trained.argmax()) for row in rows]
    longest = max(starts)
    rest = max(len(row) - start for row, start in zip(rows, starts, strict=True))
    shape = (len(rows), rest)
    made: dict[str, Any] = {
        "prompt_ids": torch.full((len(rows), longest), encoder.pad_id),
        "prompt_mask": torch.zeros(len(rows), longest, dtype=torch.int64),
        "completion_ids": torch.full(shape, encoder.pad_id),
        "completion_mask": torch.zeros(shape, dtype=torch.int64),
        "tool_mask": torch.zeros(shape, dtype=torch.int64),
        "old_per_token_logps": torch.zeros(shape),
        "advantages": torch.zeros(shape),
    }
    for number, (rollout, row, start) in enumerate(zip(rollouts, rows, starts, strict=True)):
        ids = torch.from_numpy(row.ids)
        length = len(ids) - start
        made["prompt_ids"][number, longest - start :] = ids[:start]
        made["prompt_mask"][number, longest - start :] = 1
        made["completion_ids"][number, :length] = ids[start:]
        made["completion_mask"][number, :length] = 1
        made["tool_mask"][number, :length] = torch.from_numpy(row.trained[start:]).long()
        made["old_per_token_logps"][number, :length] = torch.from_numpy(rollout.behaviour_logprobs()[start:])
        made["advantages"][number, :length] = torch.from_numpy(rollout.token_advantages()[start:])
    all_ids = torch.cat([made["prompt_ids"], made["completion_ids"]], dim=1)
    made["mm_token_type_ids"] = (all_ids == encoder.placeholder_id).long()
    made |= PictureTensors(encoder, media)([picture for row in rows for picture in row.pictures])
    made["num_images"] = [len(row.pictures) for row in rows]
    made["num_items_in_batch"] = made["tool_mask"].sum()
    device = trained.checkpoint.device
    return {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in made.items()}
