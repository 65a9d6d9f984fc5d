"""The episodes of `saccade bench scale`, the policy whose tokens they have, and the programs beside this process.

Every episode looks as often as it may, and each look gives another picture of 1024x768 pixels, cut out of a drawn one
with the shading and the noise of a photograph. The policy has the tokenizer of a tiny checkpoint, and the image
processor of Qwen2.5-VL at up to a megapixel; its weights are used for nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers.utils import logging

from saccade.bench.machine import only_child
from saccade.bench.timed_engine import TimedAnswers
from saccade.dialects.base import Dialect
from saccade.dialects.registry import load_dialect
from saccade.episode.plan import Plan
from saccade.errors import SandboxError
from saccade.media.store import MediaStore
from saccade.models.tiny import save_tiny
from saccade.record.action import Answer, Code
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import EpisodeLimits
from saccade.rl.engines import guard
from saccade.training.settings import ModelSettings
from saccade.training.weights import Trainable, load_trainable

GROUP = 8
"""Rollouts of a task, whose sessions are branches of one."""
SIZE = (1024, 768)
DIALECT = "pyvision-rl-image"
ANSWER = "STOP"
_PICTURES = 16
_CONTEXT = 131_072
_MOST_PIXELS = 1 << 20
_CELL = """import os
x, y = (v % 512 for v in os.urandom(2))
image_clue_0.crop((x, y, x + {width} // 2, y + {height} // 2)).resize(({width}, {height})).show()"""
"""Shows another part at nearly every call, in processes that are forks of one."""


def make_policy(folder: Path) -> Trainable:
    """Tokens as a run of Qwen2.5-VL has them: as many for a picture, room for many pictures."""
    logging.disable_progress_bar()
    save_tiny(folder, "qwen2_5_vl")
    _change(folder / "preprocessor_config.json", lambda values: values["size"].update(longest_edge=_MOST_PIXELS))
    _change(folder / "config.json", lambda values: values["text_config"].update(max_position_embeddings=_CONTEXT))
    return load_trainable(ModelSettings(source=str(folder)), torch.device("cpu"), 0)


def make_tasks(store: MediaStore, count: int, size: tuple[int, int] = SIZE) -> list[Task]:
    """Tasks about some pictures, each of which is that of every sixteenth task."""
    parts = [store.put_image(_photo(number, size)) for number in range(min(_PICTURES, count))]
    return [
        Task(
            id=f"scale-{number}",
            question="What is written on the sign?",
            media=(NamedMedia(name="photo", part=parts[number % len(parts)]),),
        )
        for number in range(count)
    ]


def make_plans(tasks: Sequence[Task], episodes: int, looks: int, first: int = 0) -> list[Plan]:
    """`episodes` in groups over the tasks, from the episode with number `first` on."""
    dialect = load_dialect(DIALECT)
    limits = EpisodeLimits(turns=looks + 1, context_tokens=_CONTEXT, images=looks + 1)
    return [
        Plan(
            tasks[number // GROUP % len(tasks)],
            dialect,
            given_limits=limits,
            group=f"group-{number // GROUP}",
            rollout=number,
        )
        for number in range(first, first + episodes)
    ]


def answers_of(
    policy: Trainable, looks: int, seconds: float, sigma: float, size: tuple[int, int] = SIZE
) -> TimedAnswers:
    """What the engine says in place of a model."""
    encoder, dialect = policy.encoder, load_dialect(DIALECT)
    code = Code(code=_CELL.format(width=size[0], height=size[1]))
    look = (*encoder.text(_said(dialect, code)), encoder.end_id)
    answer = (*encoder.text(_said(dialect, Answer(text=ANSWER))), encoder.end_id)
    return TimedAnswers(look, answer, looks, encoder.placeholder_id, seconds, sigma)


@contextmanager
def engine_process(answers: TimedAnswers) -> Iterator[tuple[str, int]]:
    """The address of an engine, and the id of its process."""
    command = [sys.executable, "-m", "saccade.bench.timed_engine", answers.as_json()]
    with _running(command, "the engine") as (line, process):
        yield f"http://127.0.0.1:{int(line)}", process


@contextmanager
def sandbox_hosts(count: int, sessions: int) -> Iterator[str]:
    """The addresses, with commas between them, of servers of sandboxes for `sessions` sessions each."""
    code = "import sys; from saccade.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "sandbox", "serve", "--port", "0", "--no-token"]
    with ExitStack() as stack:
        lines = [
            stack.enter_context(_running([*command, "--max-sessions", str(sessions)], "a sandbox host"))[0]
            for _ in range(count)
        ]
        yield ",".join(line.split()[2] for line in lines)


@contextmanager
def _running(command: Sequence[str], what: str) -> Iterator[tuple[str, int]]:
    """The first line that a program prints, and its process; it ends with the block, or when this process is killed."""
    guarded = [sys.executable, "-I", guard.__file__, *command]
    with subprocess.Popen(guarded, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            if not line:
                raise SandboxError(f"{what} of the benchmark did not start; what it printed says why.")
            yield line, only_child(process.pid)
        finally:
            process.terminate()


def _said(dialect: Dialect, action: Code | Answer) -> str:
    return dialect.write(action, "I look again.")


def _photo(number: int, size: tuple[int, int]) -> Image.Image:
    """Soft shapes of several sizes under the noise of a sensor."""
    random = np.random.default_rng(number)
    total = np.zeros((size[1], size[0], 3))
    for cells, strength in ((4, 60), (16, 30), (64, 12)):
        small = Image.fromarray(random.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        total += (np.asarray(small.resize(size, Image.Resampling.BICUBIC), float) - 128) * strength / 64
    total += random.normal(0, 3, total.shape)
    return Image.fromarray(np.clip(total + 128, 0, 255).astype(np.uint8))


def _change(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    values = json.loads(file.read_text(encoding="utf-8"))
    change(values)
    file.write_text(json.dumps(values), encoding="utf-8")
