"""The rows of `saccade bench sandbox`: what is measured, in which unit, and what is to be reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from saccade.bench import forks, own_work, work
from saccade.bench.measure import FULL, BenchScale, Result
from saccade.bench.ours import Saccade
from saccade.bench.peer import Peer
from saccade.bench.work import Setup


@dataclass(frozen=True, slots=True)
class Target:
    """A figure to reach. `times` compares with Jupyter in the same run: at least so many times better."""

    text: str
    bound: float | None = None
    """In the row's unit; at most this where lower is better, at least this where higher is."""
    times: float | None = None
    full_scale_only: bool = False
    """Whether a smaller scale makes the row easier, so that it proves nothing."""

    def met(self, ours: float, jupyter: float | None, *, higher_is_better: bool) -> bool | None:
        """Whether it is reached; None if that is unknown because Jupyter was not measured."""
        if self.bound is not None and (ours < self.bound if higher_is_better else ours > self.bound):
            return False
        if self.times is None:
            return True
        if jupyter is None:
            return None
        return (ours / jupyter if higher_is_better else jupyter / ours) >= self.times


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One line of the table."""

    name: str
    """For `--only`."""
    title: str
    """May hold {many}, {branches}, {array}, {alive}, {few} and {forks}, the sizes of a scale."""
    unit: str
    measure: Callable[[Peer, Setup], Result] | None
    """The work for every contender; None if only ours can do it."""
    own: Callable[[Saccade, Setup], Result] | None = None
    target: Target | None = None
    higher_is_better: bool = False

    def title_at(self, scale: BenchScale) -> str:
        """The title with the sizes of that scale."""
        sizes = {"many": scale.many, "branches": scale.branches, "alive": scale.alive, "forks": scale.forks}
        sizes["few"] = min(forks.FEW_FORKS, scale.forks)
        return self.title.format(**sizes, array=scale.array_bytes // 1_000_000)

    def judged_at(self, scale: BenchScale) -> bool:
        """Whether a run of that scale can meet or miss the target."""
        return self.target is not None and (scale == FULL or not self.target.full_scale_only)


ROWS: tuple[BenchRow, ...] = (
    BenchRow("provider", "the sandbox itself, once for all sessions", "ms", None, own_work.start_provider),
    BenchRow(
        "start",
        "session until first print; numpy, Pillow, matplotlib imported",
        "ms",
        work.start,
        target=Target("≤ 20, ≥ 40× Jupyter", 20.0, 40.0),
    ),
    BenchRow(
        "start-picture",
        "session with a 12-megapixel picture, decoded once before",
        "ms",
        work.start_picture,
        target=Target("≤ 25", 25.0),
    ),
    BenchRow(
        "call",
        "trivial call, pause before it (spare fork ready)",
        "ms",
        work.call_after_pause,
        target=Target("≤ 2, below Jupyter", 2.0, 1.0),
    ),
    BenchRow("call-at-once", "trivial call, back to back", "ms", work.call_at_once),
    BenchRow("fail", "call that raises", "ms", work.failing_call),
    BenchRow(
        "plot", "crop of 4000×3000, plt.show()", "ms", work.crop_plot, target=Target("≤ 1/3 of Jupyter", times=3.0)
    ),
    BenchRow("show", "crop of 4000×3000, Image.show()", "ms", work.crop_show, target=Target("≤ 20", 20.0)),
    BenchRow(
        "start-many",
        "{many} sessions at once until all have printed",
        "s",
        work.many_start,
        target=Target("≤ 0.6", 0.6, full_scale_only=True),
    ),
    BenchRow(
        "plots-many",
        "crops with plt.show() per second, {many} sessions",
        "1/s",
        work.many_crops,
        target=Target("≥ 2× Jupyter", times=2.0, full_scale_only=True),
        higher_is_better=True,
    ),
    BenchRow(
        "memory",
        "memory per idle session (PSS)",
        "MB",
        work.idle_memory,
        target=Target("≤ 4", 4.0, full_scale_only=True),
    ),
    BenchRow("memory-called", "the same after the session's first call", "MB", work.memory_after_call),
    BenchRow(
        "branch",
        "{branches} branches: 12 megapixels and a {array} MB array",
        "ms",
        None,
        own_work.branch_time,
        Target("≤ 180", 180.0, full_scale_only=True),
    ),
    BenchRow(
        "branch-memory",
        "memory that each of them adds (PSS)",
        "MB",
        None,
        own_work.branch_memory,
        Target("< 3", 3.0, full_scale_only=True),
    ),
    BenchRow("forks", "{few} forks with a {array} MB array, until all have answered", "ms", None, forks.few_forks),
    BenchRow("forks-many", "{forks} forks at once, until all have answered", "ms", None, forks.many_forks),
    BenchRow("fork-long", "a fork after 100 calls, until its first result", "ms", None, forks.long_fork),
    BenchRow(
        "neighbour",
        "a call beside a hostile session, by its time alone",
        "×",
        None,
        forks.one_hostile,
        Target("≤ 2", 2.0, full_scale_only=True),
    ),
    BenchRow(
        "neighbour-four",
        "the same beside four",
        "×",
        None,
        forks.four_hostile,
        Target("≤ 4", 4.0, full_scale_only=True),
    ),
    BenchRow(
        "alive",
        "sessions alive at once, of {alive}",
        "",
        None,
        own_work.alive,
        Target("2000", 2000.0, full_scale_only=True),
        higher_is_better=True,
    ),
)
