"""`python -m benchmarks loop`: what the loop costs, with a model that answers in no time.

Every figure is shown with what it is measured against in the same run: turns with the same calls made straight to the
sandbox, a start of ours with a bare start of Python. Memory is that of this process after each batch of episodes.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, own_memory
from saccade.dialects.base import Dialect, load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.errors import SandboxError
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Answer, Code, Message
from saccade.record.execution import Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import EpisodeLimits, Trajectory
from saccade.sandbox.base import Sandbox
from saccade.sandbox.local import LocalSandbox
from saccade.sandbox.result import RunResult
from saccade.sandbox.scripted import ScriptedSandbox

CALLS = 4
"""Calls of an episode; its last turn is the answer."""
TRIVIAL = "print(1 + 1)"
SHOWING = "import os\nimage_clue_0.crop((0, 0, 64, 64)).point(lambda v: (v + os.getpid()) % 256).show()"
"""A cell that shows another picture in nearly every process."""


@dataclass(frozen=True, slots=True)
class LoopScale:
    """Sizes of a run."""

    concurrent: int = 32
    episodes: int = 192
    """In the rows that count turns per second."""
    bare_episodes: int = 400
    """In the row without a sandbox."""
    memory_episodes: int = 2000
    starts: int = 7


FULL_LOOP = LoopScale()
QUICK_LOOP = LoopScale(episodes=64, bare_episodes=100, memory_episodes=200, starts=3)


def measure_loop(scale: LoopScale, on_progress: Callable[[str], None] = lambda what: None) -> list[Figure]:
    """Measure every figure. Raises `SandboxError` if an episode does not do its work."""
    full = scale == FULL_LOOP
    on_progress("turns per second")
    ours, straight = asyncio.run(_turns_per_second(scale))
    on_progress("the loop without a sandbox")
    bare = asyncio.run(_bare_turn(scale))
    on_progress("memory over many episodes")
    before, after = asyncio.run(_memory(scale))
    on_progress("starting the program")
    python = _start(scale, "pass")
    package = _start(scale, "import saccade")
    help_ = _start(scale, "from saccade.cli.main import main; main(['--help'])")
    growth = (after - before) / 2**20
    at_once = f"{scale.concurrent} episodes at once"
    return [
        Figure(f"turns, {at_once}", ours, "per second", "calls straight to the sandbox", straight, "≥ 60", ours >= 60),
        Figure("a turn of the loop, without a sandbox", bare, "ms", target="≤ 1", met=bare <= 1),
        Figure(
            f"growth from episode {scale.memory_episodes // 4} to {scale.memory_episodes}",
            growth,
            "MiB",
            "all memory of this process",
            after / 2**20,
            "flat: ≤ 2 % of it",
            growth <= 0.02 * after / 2**20 if full else None,
        ),
        Figure("import saccade", package, "s", "python -c pass", python, "≤ 0.3", package <= 0.3),
        Figure("saccade --help", help_, "s", "python -c pass", python, "≤ 0.5", help_ <= 0.5),
    ]


async def _turns_per_second(scale: LoopScale) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        store = MediaStore(folder)
        dialect = load_dialect("pyvision")
        plan = Plan(_task(store), dialect)
        async with LocalSandbox(limits=dialect.sandbox) as box:
            await _episodes(plan, box, store, TRIVIAL, scale.concurrent, scale.concurrent)  # warm
            start = time.perf_counter()
            turns = await _episodes(plan, box, store, TRIVIAL, scale.episodes, scale.concurrent)
            ours = turns / (time.perf_counter() - start)
            start = time.perf_counter()
            await asyncio.gather(*(_straight(box, dialect, scale) for _ in range(scale.concurrent)))
            # As many turns: the answer of each episode makes no call.
            made = (CALLS + 1) * scale.concurrent * (scale.episodes // scale.concurrent)
            straight = made / (time.perf_counter() - start)
    return ours, straight


async def _straight(box: LocalSandbox, dialect: Dialect, scale: LoopScale) -> None:
    for _ in range(scale.episodes // scale.concurrent):
        session = await box.open(options=dialect.session)
        for _ in range(CALLS):
            result = await session.run(TRIVIAL)
            if result.stdout != "2\n":
                raise SandboxError(f"a benchmark cell printed {result.stdout!r} instead of 2")
        await session.close()


async def _bare_turn(scale: LoopScale) -> float:
    with tempfile.TemporaryDirectory() as folder:
        store = MediaStore(folder)
        plan = Plan(_task(store), load_dialect("pyvision"))
        box = ScriptedSandbox(lambda code: RunResult(status=Status.OK, stdout="2\n", committed=True))
        await _episodes(plan, box, store, TRIVIAL, 10, 1)  # warm
        start = time.perf_counter()
        turns = await _episodes(plan, box, store, TRIVIAL, scale.bare_episodes, 1)
        return 1000.0 * (time.perf_counter() - start) / turns


async def _memory(scale: LoopScale) -> tuple[float, float]:
    """Return the memory of this process, in bytes, after a quarter of the episodes and after all."""
    with tempfile.TemporaryDirectory() as folder:
        store = MediaStore(folder)
        dialect = load_dialect("pyvision")
        plan = Plan(_task(store), dialect, given_limits=EpisodeLimits(turns=2))
        async with LocalSandbox(limits=dialect.sandbox) as box:
            await _episodes(plan, box, store, SHOWING, scale.memory_episodes // 4, scale.concurrent, calls=1)
            before = own_memory()
            rest = scale.memory_episodes - scale.memory_episodes // 4
            await _episodes(plan, box, store, SHOWING, rest, scale.concurrent, calls=1)
            return before, own_memory()


async def _episodes(
    plan: Plan, box: Sandbox, store: MediaStore, code: str, count: int, concurrent: int, calls: int = CALLS
) -> int:
    """Play `count` episodes and return the number of their turns."""
    write = plan.dialect.write
    texts = [*[write(Code(code=code), "Look.")] * calls, write(Answer(text="2"), "Seen.")]
    turns = 0
    left = iter(range(count))

    async def worker() -> None:
        nonlocal turns
        for _ in left:
            trajectory = await run_episode(plan, ScriptedModel(_next_text(texts)), box, store)
            _check(trajectory, calls)
            turns += len(trajectory.turns)

    await asyncio.gather(*(worker() for _ in range(concurrent)))
    return turns


def _next_text(texts: Sequence[str]) -> Callable[[tuple[Message, ...]], str]:
    def say(messages: tuple[Message, ...]) -> str:
        return texts[sum(message.role == "assistant" for message in messages)]

    return say


def _check(trajectory: Trajectory, calls: int) -> None:
    good = [turn for turn in trajectory.turns if turn.execution is not None and turn.execution.status is Status.OK]
    if trajectory.answer != "2" or len(good) != calls:
        raise SandboxError(f"a benchmark episode did not do its work: {trajectory.stop}, {trajectory.stop_detail}")


def _task(store: MediaStore) -> Task:
    import numpy as np
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (512, 512, 3), dtype=np.uint8)
    part = store.put_image(Image.fromarray(noise))
    return Task(id="bench", question="What is 1 + 1?", media=(NamedMedia(name="noise", part=part),))


def _start(scale: LoopScale, code: str) -> float:
    """Return the median seconds of a fresh interpreter that runs `code`."""
    seconds = []
    for _ in range(scale.starts):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, cwd=Path.home())
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)
