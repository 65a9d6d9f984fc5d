"""`python -m benchmarks scale`: the host side of many episodes at once, against an engine with drawn answer times.

Nothing of it is made simpler: rollouts in groups as the trainer plays them, the client of a vLLM server, sandboxes here
or behind servers on this machine, pictures in the store and on their way to the engine, records on the disk. Only the
engine has no model (`benchmarks.servers`, in a process of its own). What the engine allows are the very times that it
drew, one after the other in each episode, with nothing between them. Engine, sandboxes and this process share the
machine.

Every episode looks as often as it may, and each look gives another picture of 1024x768 pixels, cut out of a drawn one
with the shading and the noise of a photograph. The policy has the tokenizer of a tiny checkpoint, and the image
processor of Qwen2.5-VL at up to a megapixel; its weights are used for nothing. Imports torch: import this module late.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from PIL import Image
from transformers.utils import logging

from benchmarks.figures import Figure, Peak, cpu_of, only_child, own_memory, parent_of, pss_bytes
from benchmarks.servers import RECEIVED, TimedAnswers
from saccade.dialects.base import Dialect, load_dialect
from saccade.episode.flow import Plan
from saccade.episode.run_folder import RunFolder
from saccade.episode.settings import sandbox_at
from saccade.errors import SandboxError, SettingsError
from saccade.media.store import MediaStore
from saccade.plugins.audit.attacks.runner import descendants
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.record.content import Answer, Code
from saccade.record.execution import Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import EpisodeLimits, Trajectory
from saccade.sandbox.base import Sandbox
from saccade.training.rl.engines import guard
from saccade.training.rl.engines.server import ServerEngine
from saccade.training.rl.engines.server_http import Connection
from saccade.training.rl.metrics import with_worth
from saccade.training.rl.rollouts import RolloutResources, generate_rollouts
from saccade.training.rl.settings import GenerationSettings
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
    """Make a policy with tokens as a run of Qwen2.5-VL has them: as many for a picture, room for many pictures."""
    logging.disable_progress_bar()
    save_tiny(folder, "qwen2_5_vl")
    _change(folder / "preprocessor_config.json", lambda values: values["size"].update(longest_edge=_MOST_PIXELS))
    _change(folder / "config.json", lambda values: values["text_config"].update(max_position_embeddings=_CONTEXT))
    return load_trainable(ModelSettings(source=str(folder)), torch.device("cpu"), 0)


def make_tasks(store: MediaStore, count: int, size: tuple[int, int] = SIZE) -> list[Task]:
    """Make tasks about some pictures, each of which is that of every sixteenth task."""
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
    """Plan `episodes` in groups over the tasks, from the episode with number `first` on."""
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
    """Return what the engine says in place of a model."""
    encoder, dialect = policy.encoder, load_dialect(DIALECT)
    code = Code(code=_CELL.format(width=size[0], height=size[1]))
    look = (*encoder.text(_said(dialect, code)), encoder.end_id)
    answer = (*encoder.text(_said(dialect, Answer(text=ANSWER))), encoder.end_id)
    return TimedAnswers(look, answer, looks, encoder.placeholder_id, seconds, sigma)


@contextmanager
def engine_process(answers: TimedAnswers) -> Iterator[tuple[str, int]]:
    """Yield the address of an engine, and the id of its process."""
    command = [sys.executable, "-m", "benchmarks.servers", "timed", answers.as_json()]
    with _running(command, "the engine") as (line, process):
        yield f"http://127.0.0.1:{int(line)}", process


@contextmanager
def sandbox_hosts(count: int, sessions: int) -> Iterator[str]:
    """Yield the addresses, with commas between them, of servers of sandboxes for `sessions` sessions each."""
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
    """Yield a program's first line of output and its process; it ends with the block or when this process is killed."""
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
    """Draw soft shapes of several sizes under the noise of a sensor."""
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


_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class ScaleRunSize:
    """How large a run is."""

    episodes: int
    """Side by side; a multiple of a group."""
    looks: int
    """Of an episode; one more turn answers."""
    seconds: float
    """Mean of a turn of the engine."""
    hosts: int = 0
    """Servers of sandboxes on this machine; 0: sandboxes in this process."""
    shown: tuple[int, int] = SIZE
    """Pixels of every picture."""
    sigma: float = 0.5
    """Standard deviation of the logarithm of a turn's seconds."""


@dataclass(frozen=True, slots=True)
class ScaleRun:
    """What came of a run."""

    turns: int
    wall: float
    """Seconds, until every record was written."""
    alone: float
    """Seconds that the engine alone would have taken."""
    waiting: float
    """Share of the episodes' time in which they waited for their sandboxes."""
    failed: int
    """Episodes that were lost, or did not do all their work."""
    sent: float
    """Bytes that the engine received for a turn."""
    encoded: int
    """Bytes of the files of all pictures."""
    host_cpu: float
    """Seconds of this process."""
    host_mib: float
    """Of this process at its peak, above what there was before; NaN where the kernel does not tell."""
    box_mib: float
    """Of all processes of the sandboxes, shared pages counted once: the most that was seen."""
    engine_cpu: float
    """Seconds of the engine's process, which receives and throws away."""
    box_cpu: float = 0.0
    """Seconds of the sandboxes, from their start to their end, their servers included."""


@dataclass(frozen=True)
class Stage:
    """What episodes are played with."""

    policy: Trainable
    folder: RunFolder
    engine: ServerEngine
    box: Sandbox

    async def play(self, plans: Sequence[Plan]) -> list[Trajectory]:
        """Play all `plans` at once; what came of them is on the disk."""
        resources = RolloutResources(self.engine, self.policy.encoder, self.box, self.folder.store)
        settings = GenerationSettings(max_concurrency=len(plans), replays=0)
        rollouts, _ = await generate_rollouts(plans, resources, settings, 0)
        for item in rollouts:
            self.folder.append(with_worth(item))
        return [item.trajectory for item in rollouts]


def measure_run(policy: Trainable, root: Path, size: ScaleRunSize) -> ScaleRun:
    """Play the episodes of a run in the folder `root`, which is made.

    Raises:
        IsolationError: this machine cannot isolate a sandbox.
        SandboxError: the engine or a host of sandboxes did not start.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with _processes(policy, size) as (url, engine, where):
        run = asyncio.run(_run(policy, root, size, (url, engine, where)))
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Of all that have ended and were waited for, the engine among them.
    children = ended.ru_utime + ended.ru_stime - used.ru_utime - used.ru_stime
    return replace(run, box_cpu=children - run.engine_cpu)


async def growth_over(policy: Trainable, root: Path, size: ScaleRunSize, count: int) -> tuple[float, float]:
    """Return the memory of this process, in bytes, after a quarter of `count` episodes and after all, run after run.

    Raises:
        SandboxError: an episode did not do its work.
    """
    with _processes(policy, size) as (url, _, where):
        async with _stage(policy, root, url, where) as stage:
            tasks = make_tasks(stage.folder.store, size.episodes // GROUP, size.shown)
            before = 0.0
            for first in range(0, count, size.episodes):
                played = await stage.play(make_plans(tasks, size.episodes, size.looks, first))
                if failed := sum(not _did_its_work(item, size.looks) for item in played):
                    raise SandboxError(f"{failed} episodes of the benchmark did not do their work")
                if first < count / 4 <= first + size.episodes:
                    before = own_memory()
            return before, own_memory()


async def _run(policy: Trainable, root: Path, size: ScaleRunSize, at: tuple[str, int, str]) -> ScaleRun:
    url, process, where = at
    async with _stage(policy, root, url, where) as stage:
        tasks = make_tasks(stage.folder.store, size.episodes // GROUP, size.shown)
        plans = make_plans(tasks, size.episodes, size.looks)
        async with httpx.AsyncClient(base_url=url) as client, _boxes_watched(process, size) as seen:
            await client.get(RECEIVED)
            began, cpu, engine_cpu = time.perf_counter(), time.process_time(), cpu_of(process)
            with Peak(_CPU) as memory:
                played = await stage.play(plans)
            wall, cpu, engine_cpu = time.perf_counter() - began, time.process_time() - cpu, cpu_of(process) - engine_cpu
            received = (await client.get(RECEIVED)).json()
    turns = sum(len(item.turns) for item in played)
    files = (file for file in stage.folder.store.root.rglob("*") if file.is_file())
    return ScaleRun(
        turns=turns,
        wall=wall,
        alone=max(map(_drawn, played)),
        waiting=sum(turn.execution_seconds for item in played for turn in item.turns)
        / sum(item.seconds for item in played),
        failed=sum(not _did_its_work(item, size.looks) for item in played),
        sent=received["bytes"] / max(1, received["turns"]),
        encoded=sum(file.stat().st_size for file in files),
        host_cpu=cpu,
        host_mib=float("nan") if memory.mib is None else memory.mib,
        box_mib=max(seen, default=float("nan")),
        engine_cpu=engine_cpu,
    )


@contextmanager
def _processes(policy: Trainable, size: ScaleRunSize) -> Iterator[tuple[str, int, str]]:
    """Yield the address of an engine, the id of its process, and where sandboxes are."""
    sessions = size.episodes + -(-size.episodes // GROUP) + 1  # any host could hold all, so the pool balances them
    with ExitStack() as stack:
        url, process = stack.enter_context(
            engine_process(answers_of(policy, size.looks, size.seconds, size.sigma, size.shown))
        )
        yield url, process, stack.enter_context(sandbox_hosts(size.hosts, sessions)) if size.hosts else "local"


@asynccontextmanager
async def _stage(policy: Trainable, root: Path, url: str, where: str) -> AsyncIterator[Stage]:
    """Yield a stage that is ready to play: the engine was checked, a session was opened."""
    folder = RunFolder(root)
    engine = ServerEngine([Connection(url)], policy, folder.store, root / "served")
    try:
        async with sandbox_at(where, load_dialect(DIALECT).sandbox) as box:
            session = await box.open(options=load_dialect(DIALECT).session)
            await session.run("print(1)")
            await session.close()
            await engine.pool.context()
            yield Stage(policy, folder, engine, box)
    finally:
        await engine.close()


@asynccontextmanager
async def _boxes_watched(engine: int, size: ScaleRunSize) -> AsyncIterator[list[float]]:
    """Note MiB of all processes below this one but engine and guard, after half of the turns, then ever more rarely.

    Looking at thousands of processes takes a second of a processor.
    """
    seen: list[float] = []
    others = {engine, parent_of(engine)}

    async def watch() -> None:
        wait = size.seconds * (size.looks + 1) / 2
        while True:
            await asyncio.sleep(wait)
            seen.append(await asyncio.to_thread(lambda: pss_bytes(descendants(os.getpid()) - others) / 2**20))
            wait *= 2

    task = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _drawn(item: Trajectory) -> float:
    """Return the seconds that the engine drew for its turns, as it says in their log-probabilities."""
    return sum(-turn.logprobs[0] for turn in item.turns if turn.logprobs)


def _did_its_work(item: Trajectory, looks: int) -> bool:
    made = [turn.execution for turn in item.turns if turn.execution is not None]
    return (
        item.answer == ANSWER
        and len(made) == looks
        and all(each.status is Status.OK and len(each.pictures) == 1 for each in made)
    )


SHARE = 0.9
"""Of what the engine alone allows, with as many episodes as are judged."""
JUDGED = 64
ROOM = 50.0
"""MB of pictures in memory above their encoded size."""


@dataclass(frozen=True, slots=True)
class ScaleSizes:
    """Sizes of a run."""

    episodes: tuple[int, ...] = (64, 256, 1024)
    """Side by side."""
    hosts: tuple[int, ...] = (0, 2)
    """Servers of sandboxes on this machine; 0: sandboxes in this process."""
    looks: int = 5
    seconds: float = 5.0
    """Mean of a turn of the engine."""
    picture_episodes: int = 32
    """0: none."""
    picture_looks: int = 9
    """With the answer ten turns."""
    many: int = 10_000
    """Short episodes over which memory is to be flat; 0: none."""
    step: int = 256
    """Of them, side by side."""
    judged: bool = True
    """Whether targets are; a small run says nothing about them."""

    def with_episodes(self, episodes: Sequence[int]) -> ScaleSizes:
        """Return the same with so many side by side at a time.

        Raises:
            SettingsError: groups cannot be whole.
        """
        if odd := [number for number in episodes if number < GROUP or number % GROUP]:
            raise SettingsError(
                f"episodes are played in groups of {GROUP}, so {odd[0]} cannot be. Give a multiple of {GROUP}."
            )
        return replace(self, episodes=tuple(episodes))


FULL_SCALE = ScaleSizes()
QUICK_SCALE = ScaleSizes(
    (8, 32), looks=2, seconds=0.5, picture_episodes=8, picture_looks=3, many=64, step=32, judged=False
)


def measure_scale(sizes: ScaleSizes, on_progress: Callable[[str], None] = lambda what: None) -> list[Figure]:
    """Measure every figure.

    Raises:
        IsolationError: this machine cannot isolate a sandbox.
        SandboxError: the engine or a host did not start, or a short episode did not do its work.
    """
    figures = []
    with tempfile.TemporaryDirectory(prefix="saccade-bench-") as folder:
        root = Path(folder)
        policy = make_policy(root / "policy")
        folder_of_run = root / "run"

        def run(size: ScaleRunSize) -> ScaleRun:
            made = measure_run(policy, folder_of_run, size)
            shutil.rmtree(folder_of_run)  # gigabytes of pictures
            return made

        for episodes in sizes.episodes:
            for hosts in sizes.hosts:
                size = ScaleRunSize(episodes, sizes.looks, sizes.seconds, hosts)
                on_progress(_name(size))
                figures += _figures(size, run(size))
        if sizes.picture_episodes:
            on_progress("pictures in memory")
            size = ScaleRunSize(sizes.picture_episodes, sizes.picture_looks, sizes.seconds / 5)
            figures.append(_pictures(size, run(size)))
        if sizes.many:
            on_progress(f"memory over {sizes.many} episodes")
            size = ScaleRunSize(sizes.step, looks=1, seconds=sizes.seconds / 100, shown=(256, 192))
            figures.append(_flat(sizes, *asyncio.run(growth_over(policy, folder_of_run, size, sizes.many))))
    return figures if sizes.judged else [replace(figure, met=None) for figure in figures]


def _name(size: ScaleRunSize) -> str:
    return f"{size.episodes} {'remote' if size.hosts else 'local'}"


def _figures(size: ScaleRunSize, run: ScaleRun) -> list[Figure]:
    name = _name(size)
    rate, allowed = run.turns / run.wall, run.turns / run.alone
    judged = size.episodes == JUDGED
    engine = f"the engine alone, {size.seconds:g} s a turn"
    return [
        Figure(
            f"{name}: turns",
            rate,
            "per second",
            engine,
            allowed,
            f"≥ {SHARE:.0%} of it" if judged else "",
            rate >= SHARE * allowed if judged else None,
        ),
        Figure(f"{name}: turns that the processors allow", _most_turns(run), "per second", engine, allowed),
        Figure(f"{name}: lost or broken episodes", run.failed, "", target="0", met=not run.failed),
        Figure(f"{name}: time waiting for sandboxes", 100 * run.waiting, "%"),
        Figure(
            f"{name}: CPU of the host",
            1000 * run.host_cpu / run.turns,
            "ms a turn",
            "its sandboxes",
            1000 * run.box_cpu / run.turns,
        ),
        Figure(
            f"{name}: memory of the host, peak",
            run.host_mib / size.episodes,
            "MiB an episode",
            "its sandboxes",
            run.box_mib / size.episodes,
        ),
        Figure(
            f"{name}: sent to the engine, {size.looks + 1} turns",
            run.sent / 1e6,
            "MB a turn",
            "pictures kept",
            run.encoded / run.turns / 1e6,
        ),
    ]


def _most_turns(run: ScaleRun) -> float:
    """Return the turns a second if no processor ever waited and nothing else ran: a turn's processor time decides."""
    return len(os.sched_getaffinity(0)) * run.turns / (run.host_cpu + run.box_cpu + run.engine_cpu)


def _pictures(size: ScaleRunSize, run: ScaleRun) -> Figure:
    encoded, held = run.encoded / 1e6, run.host_mib * 2**20 / 1e6
    name = f"peak of the host, {size.episodes} episodes of {size.looks + 1} turns, 1024x768"
    return Figure(name, held, "MB", "the pictures' files", encoded, f"≤ {ROOM:g} above them", held <= encoded + ROOM)


def _flat(sizes: ScaleSizes, before: float, after: float) -> Figure:
    growth = (after - before) / 2**20
    name = f"growth from episode {sizes.many // 4} to {sizes.many}"
    total = after / 2**20
    return Figure(name, growth, "MiB", "all memory of the host", total, "flat: ≤ 2 % of it", growth <= 0.02 * total)
