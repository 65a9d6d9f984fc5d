"""Measure sandboxes, training and sampling on one GPU, with random weights of Qwen2.5-VL's shapes; on a CPU tiny ones.

    tools/gpu_check.sh OUT [PHOTOS]      # writes OUT/gpu_check.md and OUT/gpu_check.json, row by row

First what is quick: the sandbox, a pass of training, 32 rows that decode together, and how far log-probabilities of
sampling and training are apart. Then steps of reinforcement learning with real sandboxes: of all weights at 3 billion,
and of adapters at 7 billion. Each figure stands beside its limit. What is learned means nothing: weights are random.
"""

from __future__ import annotations

import asyncio
import gc
import json
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import transformers
from PIL import Image

from saccade.cli.doctor import examine
from saccade.episode.run_folder import MEDIA
from saccade.media.store import MediaStore
from saccade.plugins.worlds.random_checkpoint import SPECIAL_TOKENS, save_tiny, tiny_tokenizer
from saccade.record.codec import write_lines
from saccade.record.content import ImagePart
from saccade.record.task import NamedMedia, Task
from saccade.sandbox.isolation import MINIMUM
from saccade.tokens.batch import BatchRow, Collator, PromptDelta, forward_passes, in_low_precision
from saccade.tokens.caches import can_attend_own
from saccade.tokens.decoder import TransformersEngine
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.sequences import cache_dtype
from saccade.tokens.turn import TurnRequest
from saccade.training.efficiency import Meter
from saccade.training.learner import make_learner
from saccade.training.memory import TrainingMemory, training_memory
from saccade.training.memory_passes import PeakBytes, known_shapes
from saccade.training.parallel import Processes
from saccade.training.rl.metrics import RlCallback
from saccade.training.rl.run import plan_memory, train
from saccade.training.rl.settings import RlSettings
from saccade.training.settings import ModelSettings, OptimizerSettings
from saccade.training.weights import Trainable, load_trainable

GIB = 2**30
STEPS = 2
ALL, SOME = "RL of all weights of {}", "RL of adapters of {}"
PICTURES = (".jpg", ".jpeg", ".png", ".webp")


@dataclass(frozen=True)
class Size:
    """How much is done."""

    tokens: int
    """Of a forward pass of training."""
    episodes: int
    """Sampled at once."""
    sampled: int
    """Tokens of each."""
    turns: int
    """Of an episode of the RL steps."""
    context: int
    """Most tokens of one."""
    tasks: int
    small: str
    """Shape of which all weights are trained."""
    large: str
    """Shape of which adapters are."""


LARGE = Size(8192, 32, 192, 5, 12_288, 4, "Qwen2.5-VL-3B-Instruct", "Qwen2.5-VL-7B-Instruct")
SMALL = Size(256, 3, 12, 2, 2048, 2, "tiny", "tiny")


class Table:
    """The rows so far, on the disk too."""

    def __init__(self, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._out = out
        self._rows: list[tuple[str, str, str]] = []

    def add(self, what: str, value: object, limit: object = "") -> None:
        """Add a row: what was measured, and what it could be at most, or is to be."""
        shown, most = (f"{one:,.4g}" if isinstance(one, float) else str(one) for one in (value, limit))
        self._rows.append((what, shown, most))
        lines = ["| what | value | limit |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in self._rows)]
        (self._out / "gpu_check.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        found = {name: {"value": value, "limit": limit} for name, value, limit in self._rows}
        (self._out / "gpu_check.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        sys.stdout.write(lines[-1] + "\n")
        sys.stdout.flush()

    def tries(self, what: str, work: Callable[[], object]) -> bool:
        """Do some of the work; where it fails, say so and let the rest go on."""
        began = time.perf_counter()
        try:
            work()
        except Exception as error:
            traceback.print_exc()
            self.add(f"{what}: failed", " ".join(str(error).split())[:200] or type(error).__name__)
            return False
        finally:
            gc.collect()
            torch.cuda.empty_cache()  # nothing without a GPU
        self.add(f"{what}: seconds in all", time.perf_counter() - began)
        return True


def save_random(folder: Path, name: str) -> None:
    """A checkpoint of a real shape with random weights, and the tokenizer of the tiny ones."""
    save_tiny(folder, "qwen2_5_vl")  # tokenizer and image processor stay, weights and configuration are replaced
    if name == SMALL.small:
        return
    shape = {field: value for field, value in known_shapes()[name].items() if field != "weights"}
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


def model_settings(source: Path, language: str) -> ModelSettings:
    """How a checkpoint is trained."""
    more = {"precision": "bfloat16", "gradient_checkpointing": True, "lora": {"dropout": 0.0}}
    return ModelSettings.model_validate({"source": str(source), "language": language, **more})


def sandbox(table: Table) -> None:
    """Start a sandbox, and count its layers."""
    report = asyncio.run(examine(MINIMUM))
    layers = report["layers"]
    table.add("sandbox: layers that are on", sum(layer["on"] for layer in layers), len(layers))
    if not report["ok"]:
        raise RuntimeError(str(report["error"] or report["missing"]))


def without_pictures(memory: TrainingMemory) -> int:
    """Bytes of an update that sees none."""
    state = memory.state
    kept = state.weights + state.gradients + state.optimizer + state.gathered_update
    return kept + max(memory.language.most, memory.language.held + memory.logits.most)


def collator(trained: Trainable) -> Collator:
    """What makes the batches of a trainer: packed where nothing else is said."""
    pictures = PictureTensors(trained.encoder, MediaStore(Path(tempfile.gettempdir())))
    return Collator(trained.encoder, pictures, trained.model, packed=trained.packs)


def random_rows(tokens: int) -> list[BatchRow]:
    """Trajectories of random text, of one, two, three and four tenths of `tokens`; nearly every token is learned."""
    generator = torch.Generator().manual_seed(0)
    lengths = [tokens * part // 10 for part in (1, 2, 3)]
    rows = []
    for number, length in enumerate([*lengths, tokens - sum(lengths)]):
        ids = torch.randint(len(SPECIAL_TOKENS), 300, (length,), generator=generator).numpy()
        rows.append(BatchRow(f"random-{number}", ids, ids > len(SPECIAL_TOKENS) + 2, ()))
        rows[-1].trained[0] = False
    return rows


def training(table: Table, trained: Trainable, settings: ModelSettings, size: Size) -> None:
    """Some updates over random text: speed, and peak of memory beside the plan."""
    device = trained.checkpoint.device
    learner = make_learner(
        trained, OptimizerSettings(learning_rate=1e-6), Processes(cpu=device.type == "cpu"), shard=False
    )
    rows = random_rows(size.tokens)
    collate = collator(trained)
    trained.model.train()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    counted = PeakBytes()
    for _ in range(3):
        began = time.perf_counter()
        # On a GPU its allocator tells the peak, and a look at every operation would take longer than the operation.
        with nullcontext() if device.type == "cuda" else counted:
            batch = collate(rows)
            with trained.autocast():
                scores = trained.scorer(batch, batch.lay_out([row.trained for row in rows], False))
            loss = -scores.logprobs.mean()
            learner.backward(loss)
            norm = learner.gradient_norm(1.0)
            learner.step(1.0)
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    meter = Meter.of(trained)
    mfu = meter.mfu(meter.work.flops(rows).both, seconds, 1)
    table.add("training, tokens a second", size.tokens / seconds, size.tokens / seconds / mfu)
    table.add("training, mfu", mfu, 1.0)
    table.add("loss, norm of the gradient", f"{float(loss.detach()):.3f}, {norm:.3f}")
    memory = training_memory(settings, size.tokens, 1, low=True)
    made = float(memory.state.weights + memory.state.optimizer + counted.most)
    measured = float(torch.cuda.max_memory_allocated()) if device.type == "cuda" else made
    table.add("training, peak memory in GiB, beside the plan", measured / GIB, without_pictures(memory) / GIB)


async def sampling(table: Table, trained: Trainable, size: Size) -> None:
    """Tokens a second of the engine, and log-probabilities of the same tokens in a forward pass of training."""
    trained.model.eval()
    store = MediaStore(Path(tempfile.gettempdir()))
    engine = TransformersEngine(trained, store, cache_bytes=4.0 * GIB)
    delta = PromptDelta(trained.encoder.text("Look at the picture and say what is written on the sign."))
    for seeds in (range(size.episodes), range(size.episodes, 2 * size.episodes)):  # first once to warm up
        slots = engine.slots(seeds)
        before, busy = engine.decoded, engine.busy_seconds
        with in_low_precision(trained.model, low=trained.low_precision):
            asked = TurnRequest(delta, max_tokens=size.sampled)
            turns = await asyncio.gather(*(slot.generate(asked) for slot in slots))
        decoded, seconds = engine.decoded - before, engine.busy_seconds - busy
        played = [slot.ids for slot in slots]
        for slot in slots:
            slot.release()
    await engine.close()
    tokens = sum(len(turn.ids) for turn in turns)
    share = Meter.of(trained).bandwidth(decoded.bytes, decoded.seconds)
    table.add(f"sampling {size.episodes} episodes, tokens a second", tokens / seconds, tokens / seconds / share)
    table.add("sampling, share of the memory's bandwidth", share, 1.0)
    known = trained.checkpoint
    own = can_attend_own(known.config, known.family, known.device, cache_dtype(trained))
    table.add("sampling, how far rows are read", "to their own ends" if own else "to the end of the longest")
    rows = [BatchRow("sampled", np.array(ids), np.arange(len(ids)) >= len(delta.ids), ()) for ids in played]
    collate, gaps = collator(trained), []
    for chosen in forward_passes([len(row) for row in rows], size.tokens, packed=trained.packs):
        batch = collate([rows[at] for at in chosen])
        with torch.no_grad(), trained.autocast():
            scores = trained.scorer(batch, batch.lay_out([rows[at].trained for at in chosen], False))
        sampled = torch.tensor([logprob for at in chosen for logprob in turns[at].logprobs])
        gaps.append((scores.logprobs.cpu() - sampled).abs())
    gap = torch.cat(gaps)
    table.add("log-probability, sampling against training, mean (nats)", float(gap.mean()))
    table.add("the same, largest", float(gap.max()), 1.0)


class _EnoughError(Exception):
    """The steps that were wanted are made: no checkpoint has to be written."""


class Steps(RlCallback):
    """Writes the numbers of every step into the table."""

    def __init__(self, table: Table, name: str) -> None:
        self._table = table
        self._name = name

    def step(self, number: int, values: Mapping[str, float | int]) -> None:
        name = f"{self._name}, step {number}"
        rate, share = values["sampled_tokens_per_second"], values["bandwidth"]
        parts = ("decoding", "sandbox", "update")
        self._table.add(f"{name}: sampled tokens", values["sampled_tokens"])
        self._table.add(f"{name}: sampled tokens a second", rate, rate / share)
        self._table.add(f"{name}: share of the memory's bandwidth", share, 1.0)
        self._table.add(f"{name}: mfu of the update", values["mfu"], 1.0)
        spent = " / ".join(f"{values[f'seconds/{part}']:.2f}" for part in parts)
        self._table.add(f"{name}: seconds of decoding / sandbox / update", spent)
        self._table.add(f"{name}: largest gap of log-probability (nats)", values["logprob_gap"], 1.0)
        if number == STEPS:
            raise _EnoughError


def photographs(store: MediaStore, folder: Path | None, count: int) -> list[ImagePart]:
    """The first pictures of a folder; without one, noise of a photo's size."""
    if folder is None:
        return [store.put_image(Image.effect_noise((1024, 768), 64).convert("RGB")) for _ in range(count)]
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in PICTURES)[:count]
    return [store.put_image(Image.open(path).convert("RGB")) for path in found]


def steps(table: Table, name: str, source: Path, language: str, size: Size, photos: Path | None) -> None:
    """Some steps of reinforcement learning: real code in real sandboxes after every turn."""
    folder = source.with_name(language)
    store = MediaStore(folder / "tasks" / MEDIA)
    parts = photographs(store, photos, size.tasks)
    if not parts:
        raise RuntimeError(f"{photos} holds no pictures ({', '.join(PICTURES)})")
    tasks = [
        Task(id=f"look-{number}", question="What is on it?", media=(NamedMedia(name="image", part=part),), answer="x")
        for number, part in enumerate(parts)
    ]
    write_lines(folder / "tasks" / "tasks.jsonl", tasks)
    gpu = torch.cuda.is_available()
    limits = {"turns": size.turns, "context_tokens": size.context}
    sampled = {"temperature": 1.0, "max_tokens": size.sampled}
    recipe = {
        "dialect": "benchmarks.rollout:LOOKING",
        "rollout": {"group_size": 8 if gpu else 2, "sampling": sampled, "limits": limits},
        "reward": {"preset": "pyvision-rl@1:paper"},
        "rounds": {"tasks": len(parts), "groups": 1, "rounds": 1},
        "steps": 1000,
    }
    run = RlSettings.model_validate(
        {
            "recipe": recipe,
            "model": model_settings(source, language).model_dump(),
            "tasks": {"source": str(folder / "tasks")},
            "validation": {"every": 0},
            "keep": {"every": 1000, "tensorboard": False},
            "rollouts": {"every": 0},
            "max_tokens_per_batch": size.context,
        }
    )
    table.add(f"{name}: pictures", f"{len(parts)} {'of noise' if photos is None else f'of {photos.name}'}")
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    with suppress(_EnoughError):
        train(run, folder / "run", callback=Steps(table, name))
    if gpu:
        most = max(phase.total for phase in plan_memory(run, 1, "cuda").phases)
        table.add(f"{name}: peak memory in GiB, beside the plan", torch.cuda.max_memory_allocated() / GIB, most / GIB)


def quick(table: Table, folder: Path, size: Size) -> None:
    """A pass of training, and rows that decode together."""
    settings = model_settings(folder, "full")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trained = load_trainable(settings, device, 0)
    limits = Meter.of(trained).limits
    table.add("limits", f"{limits.flops / 1e12:,.4g} TFLOP/s, {limits.bytes / 1e12:,.4g} TB/s", limits.says)
    training(table, trained, settings, size)
    asyncio.run(sampling(table, trained, size))


def main(out: Path, photos: Path | None) -> int:
    """Measure, and write the table into the folder `out`; return how many parts failed."""
    gpu = torch.cuda.is_available()
    size, table = LARGE if gpu else SMALL, Table(out)
    table.add("device", torch.cuda.get_device_name() if gpu else f"CPU ({platform.processor() or platform.machine()})")
    table.add("torch, transformers", f"{torch.__version__}, {transformers.__version__}")
    with tempfile.TemporaryDirectory() as root:
        small, large = Path(root) / "small", Path(root) / "large"
        parts: list[tuple[str, Callable[[], object]]] = [
            ("sandbox", lambda: sandbox(table)),
            (f"random weights of {size.small}", lambda: save_random(small, size.small)),
            ("training and sampling", lambda: quick(table, small, size)),
            (ALL.format(size.small), lambda: steps(table, ALL.format(size.small), small, "full", size, photos)),
            (f"random weights of {size.large}, for adapters", lambda: save_random(large, size.large)),
            (SOME.format(size.large), lambda: steps(table, SOME.format(size.large), large, "lora", size, photos)),
        ]
        done = [table.tries(name, work) for name, work in parts]
    return done.count(False)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
