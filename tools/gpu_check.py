"""Measure training and sampling on one GPU with random weights of Qwen2.5-VL-3B's shape; on a CPU with a tiny one.

    tools/gpu_check.sh OUT      # writes OUT/gpu_check.md and OUT/gpu_check.json

Steps of the trainer in bfloat16 with gradient checkpointing, and their memory against what `--plan` says; tokens a
second of the engine in this process; and how far the log-probabilities of sampling and training are apart. What is
learned means nothing: weights and text are random.
"""

from __future__ import annotations

import asyncio
import json
import platform
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from saccade.errors import SettingsError
from saccade.media.store import MediaStore
from saccade.plugins.worlds.random_checkpoint import SPECIAL_TOKENS, save_tiny, tiny_tokenizer
from saccade.tokens.batch import BatchRow, Collator
from saccade.tokens.build import PromptDelta
from saccade.tokens.decoder import TransformersEngine
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.turn import TurnRequest
from saccade.training.learner import Learner, make_learner
from saccade.training.memory import TrainingMemory, training_memory, usable
from saccade.training.memory_passes import PeakBytes, known_shapes
from saccade.training.parallel import Processes
from saccade.training.settings import ModelSettings, OptimizerSettings
from saccade.training.weights import Trainable, load_trainable

SHAPE = "Qwen2.5-VL-3B-Instruct"
GIB = 2**30
STEPS = 3


@dataclass(frozen=True)
class Size:
    """How much is done."""

    tokens: int
    """Of a forward pass."""
    episodes: int
    """Sampled at once."""
    sampled: int
    """Tokens of each."""


LARGE, SMALL = Size(4096, 16, 128), Size(256, 3, 12)


def save_random(folder: Path) -> None:
    """A checkpoint of the real shape with random weights, and the tokenizer of the tiny ones."""
    save_tiny(folder, "qwen2_5_vl")  # tokenizer and image processor stay, weights and configuration are replaced
    shape = {name: value for name, value in known_shapes()[SHAPE].items() if name != "weights"}
    at = SPECIAL_TOKENS.index
    ids = {"image_token_id": at("<|image_pad|>"), "video_token_id": at("<|video_pad|>")}
    ids |= {"vision_start_token_id": at("<|vision_start|>"), "vision_end_token_id": at("<|vision_end|>")}
    config = transformers.AutoConfig.for_model(**shape, **ids)
    config.text_config.eos_token_id, config.text_config.pad_token_id = at("<|im_end|>"), 0
    config.text_config.bos_token_id = None
    with torch.device("cuda"):
        model = transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16)
    model.generation_config.eos_token_id = [tiny_tokenizer().convert_tokens_to_ids("<|im_end|>"), 0]
    model.save_pretrained(folder)


def plan(source: Path, size: Size, memory: float) -> tuple[ModelSettings, TrainingMemory]:
    """Settings with which one GPU of `memory` GiB can train, and the plan for them: the whole model, else adapters."""
    for language in ("full", "lora"):
        settings = ModelSettings.model_validate(
            {"source": str(source), "language": language, "precision": "bfloat16", "gradient_checkpointing": True}
            | {"lora": {"dropout": 0.0}}
        )
        made = training_memory(settings, size.tokens, 1, low=True)
        if without_pictures(made) < usable(memory):
            return settings, made
    raise SettingsError(f"a GPU of {memory:.0f} GiB is too small even for adapters")


def without_pictures(memory: TrainingMemory) -> int:
    """Bytes of an update that sees none."""
    state = memory.state
    kept = state.weights + state.gradients + state.optimizer + state.gathered_update
    return kept + max(memory.language.most, memory.language.held + memory.logits.most)


def train(learner: Learner, size: Size) -> dict[str, float]:
    """Some updates over random text, their speed and peak of memory."""
    trained, device = learner.trained, learner.trained.checkpoint.device
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(len(SPECIAL_TOKENS), 300, (size.tokens,), generator=generator).numpy()
    row = BatchRow("random", ids, ids > len(SPECIAL_TOKENS) + 2, ())
    row.trained[0] = False
    pictures = PictureTensors(trained.encoder, MediaStore(Path(tempfile.gettempdir())))
    collate = Collator(trained.encoder, pictures, trained.model, packed=False)
    trained.model.train()
    found: dict[str, float] = {}
    for _ in range(STEPS):
        began = time.perf_counter()
        with PeakBytes() as counted:
            batch = collate([row])
            with trained.autocast():
                scores = trained.scorer(batch, batch.lay_out([row.trained], False))
            learner.backward(-scores.logprobs.mean())
            norm = learner.gradient_norm(1.0)
            learner.step(1.0)
        found["made"] = float(counted.most)  # gradients too; the optimizer's state is there from the second step on
        found["loss"], found["gradient_norm"] = float(-scores.logprobs.mean().detach()), norm
        synchronize(device)
        found["seconds"] = time.perf_counter() - began
    found["tokens_per_second"] = size.tokens / found["seconds"]
    return found


async def sample(trained: Trainable, size: Size) -> dict[str, float]:
    """Tokens a second of the engine, and log-probabilities of the same tokens in a forward pass of training."""
    trained.model.eval()
    store = MediaStore(Path(tempfile.gettempdir()))
    engine = TransformersEngine(trained, store, cache_bytes=4.0 * GIB)
    slots = engine.slots(range(size.episodes))
    delta = PromptDelta(trained.encoder.text("Look at the picture and say what is written on the sign."))
    began = time.perf_counter()
    turns = await asyncio.gather(*(slot.generate(TurnRequest(delta, max_tokens=size.sampled)) for slot in slots))
    synchronize(trained.checkpoint.device)
    seconds = time.perf_counter() - began
    await engine.close()
    collate = Collator(trained.encoder, PictureTensors(trained.encoder, store), trained.model, packed=False)
    gaps = []
    for slot, turn in zip(slots, turns, strict=True):
        ids = torch.tensor(slot.ids).numpy()
        learned = torch.arange(len(ids)).numpy() >= len(delta.ids)
        batch = collate([BatchRow("sampled", ids, learned, ())])
        with torch.no_grad(), trained.autocast():
            scores = trained.scorer(batch, batch.lay_out([learned], False))
        gaps.append((scores.logprobs.cpu() - torch.tensor(turn.logprobs)).abs())
    gap = torch.cat(gaps)
    tokens = sum(len(turn.ids) for turn in turns)
    return {"tokens_per_second": tokens / seconds, "gap_mean": float(gap.mean()), "gap_max": float(gap.max())}


def synchronize(device: torch.device) -> None:
    """Wait until what was asked of a GPU is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def main(out: Path) -> None:
    """Measure, and write the table into the folder `out`."""
    gpu = torch.cuda.is_available()
    size, device = (LARGE, torch.device("cuda")) if gpu else (SMALL, torch.device("cpu"))
    card = torch.cuda.get_device_properties(0) if gpu else None
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        save_random(Path(folder)) if gpu else save_tiny(Path(folder))
        settings, memory = plan(Path(folder), size, card.total_memory / GIB if card else 4.0)
        trained = load_trainable(settings, device, 0)
        learner = make_learner(trained, OptimizerSettings(learning_rate=1e-6), Processes(cpu=not gpu), shard=False)
        if gpu:
            torch.cuda.reset_peak_memory_stats()
        training = train(learner, size)
        planned = without_pictures(memory)
        made = memory.state.weights + memory.state.optimizer + training["made"]
        measured = float(torch.cuda.max_memory_allocated()) if gpu else made
        sampling = asyncio.run(sample(trained, size))
    rows: list[tuple[str, Any]] = [
        ("device", card.name if card else f"CPU ({platform.processor() or platform.machine()})"),
        ("torch, transformers", f"{torch.__version__}, {transformers.__version__}"),
        ("shape", SHAPE if gpu else "tiny"),
        ("trained", settings.language),
        ("tokens of a training pass", size.tokens),
        ("training, tokens a second", round(training["tokens_per_second"], 1)),
        ("loss, norm of the gradient", f"{training['loss']:.3f}, {training['gradient_norm']:.3f}"),
        ("peak memory planned, GiB", round(planned / GIB, 4)),
        ("peak memory measured, GiB", round(measured / GIB, 4)),
        ("planned / measured", round(planned / measured, 3)),
        (f"sampling {size.episodes} episodes, tokens a second", round(sampling["tokens_per_second"], 1)),
        ("log-probability, sampling against training, mean (nats)", round(sampling["gap_mean"], 6)),
        ("the same, largest", round(sampling["gap_max"], 6)),
    ]
    (out / "gpu_check.json").write_text(json.dumps(dict(rows), indent=1) + "\n", encoding="utf-8")
    table = "\n".join(["| what | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
    (out / "gpu_check.md").write_text(table + "\n", encoding="utf-8")
    sys.stdout.write(table + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
