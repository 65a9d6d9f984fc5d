"""One run of `saccade bench scale`: many episodes at once, from the first session to the last record on the disk."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import torch

from saccade.bench.machine import cpu_of, descendants, own_memory, parent_of, pss_bytes
from saccade.bench.peak import Peak
from saccade.bench.scale_work import (
    ANSWER,
    DIALECT,
    GROUP,
    SIZE,
    answers_of,
    engine_process,
    make_plans,
    make_tasks,
    sandbox_hosts,
)
from saccade.bench.timed_engine import RECEIVED
from saccade.dialects.registry import load_dialect
from saccade.episode.plan import Plan
from saccade.episode.run_folder import RunFolder
from saccade.episode.settings import sandbox_at
from saccade.errors import SandboxError
from saccade.record.status import Status
from saccade.record.trajectory import Trajectory
from saccade.rl.engines.server import ServerEngine
from saccade.rl.engines.server_http import Connection
from saccade.rl.generation.rollouts import GenerationSettings, RolloutResources, generate_rollouts
from saccade.rl.train.rollout_store import with_worth
from saccade.sandbox.base import Sandbox
from saccade.training.weights import Trainable

_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class ScaleRunSize:
    """How large a run is."""

    episodes: int
    """Side by side; a multiple of a group."""
    looks: int
    """Of an episode; a turn more answers."""
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
    """What came of it."""

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
        """All `plans` at once; what came of them is on the disk."""
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
    """Memory of this process, in bytes, after a quarter of `count` episodes and after all, run after run.

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
    """The address of an engine, the id of its process, and where sandboxes are."""
    sessions = size.episodes + -(-size.episodes // GROUP) + 1  # any host could hold all, so the pool balances them
    with ExitStack() as stack:
        url, process = stack.enter_context(
            engine_process(answers_of(policy, size.looks, size.seconds, size.sigma, size.shown))
        )
        yield url, process, stack.enter_context(sandbox_hosts(size.hosts, sessions)) if size.hosts else "local"


@asynccontextmanager
async def _stage(policy: Trainable, root: Path, url: str, where: str) -> AsyncIterator[Stage]:
    """Ready to play: the engine was checked, a session was opened."""
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
    """MiB of all processes below this one but the engine and its guard, after half of the turns, then ever more rarely.

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
    """Seconds that the engine drew for its turns, as it says in their log-probabilities."""
    return sum(-turn.logprobs[0] for turn in item.turns if turn.logprobs)


def _did_its_work(item: Trajectory, looks: int) -> bool:
    made = [turn.execution for turn in item.turns if turn.execution is not None]
    return (
        item.answer == ANSWER
        and len(made) == looks
        and all(each.status is Status.OK and len(each.pictures) == 1 for each in made)
    )
