"""`saccade bench scale`: the host side of many episodes at once, against an engine that answers after a drawn time.

Nothing of it is made simpler: rollouts in groups as the trainer plays them, the client of a vLLM server, sandboxes here
or behind servers on this machine, pictures in the store and on their way to the engine, records on the disk. Only
the engine is none (`saccade.bench.timed_engine`, in a process of its own). What the engine alone allows are the very
times that it drew, one after the other in each episode, with nothing between them. Engine, sandboxes and this process
share the machine. Imports torch; import this module late.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from saccade.bench.loop import LoopFigure
from saccade.bench.scale_run import ScaleRun, ScaleRunSize, growth_over, measure_run
from saccade.bench.scale_work import GROUP, make_policy
from saccade.errors import SettingsError

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
        """The same with so many side by side at a time.

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


def measure_scale(sizes: ScaleSizes, on_progress: Callable[[str], None] = lambda what: None) -> list[LoopFigure]:
    """Every figure.

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


def _figures(size: ScaleRunSize, run: ScaleRun) -> list[LoopFigure]:
    name = _name(size)
    rate, allowed = run.turns / run.wall, run.turns / run.alone
    judged = size.episodes == JUDGED
    engine = f"the engine alone, {size.seconds:g} s a turn"
    return [
        LoopFigure(
            f"{name}: turns",
            rate,
            "per second",
            engine,
            allowed,
            f"≥ {SHARE:.0%} of it" if judged else "",
            rate >= SHARE * allowed if judged else None,
        ),
        LoopFigure(f"{name}: turns that the processors allow", _most_turns(run), "per second", engine, allowed),
        LoopFigure(f"{name}: lost or broken episodes", run.failed, "", target="0", met=not run.failed),
        LoopFigure(f"{name}: time waiting for sandboxes", 100 * run.waiting, "%"),
        LoopFigure(
            f"{name}: CPU of the host",
            1000 * run.host_cpu / run.turns,
            "ms a turn",
            "its sandboxes",
            1000 * run.box_cpu / run.turns,
        ),
        LoopFigure(
            f"{name}: memory of the host, peak",
            run.host_mib / size.episodes,
            "MiB an episode",
            "its sandboxes",
            run.box_mib / size.episodes,
        ),
        LoopFigure(
            f"{name}: sent to the engine, {size.looks + 1} turns",
            run.sent / 1e6,
            "MB a turn",
            "pictures kept",
            run.encoded / run.turns / 1e6,
        ),
    ]


def _most_turns(run: ScaleRun) -> float:
    """A second, if no processor ever waited and nothing else ran: what a turn took of them decides."""
    return len(os.sched_getaffinity(0)) * run.turns / (run.host_cpu + run.box_cpu + run.engine_cpu)


def _pictures(size: ScaleRunSize, run: ScaleRun) -> LoopFigure:
    encoded, held = run.encoded / 1e6, run.host_mib * 2**20 / 1e6
    name = f"peak of the host, {size.episodes} episodes of {size.looks + 1} turns, 1024x768"
    return LoopFigure(
        name, held, "MB", "the pictures' files", encoded, f"≤ {ROOM:g} above them", held <= encoded + ROOM
    )


def _flat(sizes: ScaleSizes, before: float, after: float) -> LoopFigure:
    growth = (after - before) / 2**20
    name = f"growth from episode {sizes.many // 4} to {sizes.many}"
    total = after / 2**20
    return LoopFigure(name, growth, "MiB", "all memory of the host", total, "flat: ≤ 2 % of it", growth <= 0.02 * total)
