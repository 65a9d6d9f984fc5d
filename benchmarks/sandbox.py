"""`python -m benchmarks sandbox`: the rows, the run over all contenders, and the report.

Contenders take turns row by row, so that a machine that gets busier hurts all of them. One that is not installed is
left out with the command that installs it; one that fails in a row has the failure as its cell.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.figures import Machine, this_machine
from benchmarks.sandbox_hostile import each_hostile, four_hostile, one_hostile
from benchmarks.sandbox_peers import (
    FULL,
    BenchScale,
    Exec,
    Jupyter,
    Measurement,
    NotMeasured,
    Peer,
    Result,
    Saccade,
    Smolagents,
    Subprocess,
)
from benchmarks.sandbox_work import (
    FEW_FORKS,
    Setup,
    alive,
    branch_memory,
    branch_time,
    call_after_pause,
    call_at_once,
    crop_plot,
    crop_show,
    drawing_milliseconds,
    failing_call,
    few_forks,
    fork_milliseconds,
    idle_memory,
    long_fork,
    many_crops,
    many_forks,
    many_start,
    memory_after_call,
    start,
    start_picture,
    start_provider,
)
from saccade.errors import RegistryError, UnavailableError
from saccade.sandbox.isolation import Isolation


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
        """Return whether it is reached; None if that is unknown because Jupyter was not measured."""
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
        """Return the title with the sizes of that scale."""
        sizes = {"many": scale.many, "branches": scale.branches, "alive": scale.alive, "forks": scale.forks}
        sizes["few"] = min(FEW_FORKS, scale.forks)
        return self.title.format(**sizes, array=scale.array_bytes // 1_000_000)

    def judged_at(self, scale: BenchScale) -> bool:
        """Return whether a run of that scale can meet or miss the target."""
        return self.target is not None and (scale == FULL or not self.target.full_scale_only)


ROWS: tuple[BenchRow, ...] = (
    BenchRow("provider", "the sandbox itself, once for all sessions", "ms", None, start_provider),
    BenchRow(
        "start",
        "session until first print; numpy, Pillow, matplotlib imported",
        "ms",
        start,
        target=Target("≤ 20, ≥ 40× Jupyter", 20.0, 40.0),
    ),
    BenchRow(
        "start-picture",
        "session with a 12-megapixel picture, decoded once before",
        "ms",
        start_picture,
        target=Target("≤ 25", 25.0),
    ),
    BenchRow(
        "call",
        "trivial call, pause before it (spare fork ready)",
        "ms",
        call_after_pause,
        target=Target("≤ 2, below Jupyter", 2.0, 1.0),
    ),
    BenchRow("call-at-once", "trivial call, back to back", "ms", call_at_once),
    BenchRow("fail", "call that raises", "ms", failing_call),
    BenchRow("plot", "crop of 4000×3000, plt.show()", "ms", crop_plot, target=Target("≤ 1/3 of Jupyter", times=3.0)),
    BenchRow("show", "crop of 4000×3000, Image.show()", "ms", crop_show, target=Target("≤ 20", 20.0)),
    BenchRow(
        "start-many",
        "{many} sessions at once until all have printed",
        "s",
        many_start,
        target=Target("≤ 0.6", 0.6, full_scale_only=True),
    ),
    BenchRow(
        "plots-many",
        "crops with plt.show() per second, {many} sessions",
        "1/s",
        many_crops,
        target=Target("≥ 2× Jupyter", times=2.0, full_scale_only=True),
        higher_is_better=True,
    ),
    BenchRow(
        "memory", "memory per idle session (PSS)", "MB", idle_memory, target=Target("≤ 4", 4.0, full_scale_only=True)
    ),
    BenchRow("memory-called", "the same after the session's first call", "MB", memory_after_call),
    BenchRow(
        "branch",
        "{branches} branches: 12 megapixels and a {array} MB array",
        "ms",
        None,
        branch_time,
        Target("≤ 180", 180.0, full_scale_only=True),
    ),
    BenchRow(
        "branch-memory",
        "memory that each of them adds (PSS)",
        "MB",
        None,
        branch_memory,
        Target("< 3", 3.0, full_scale_only=True),
    ),
    BenchRow("forks", "{few} forks with a {array} MB array, until all have answered", "ms", None, few_forks),
    BenchRow("forks-many", "{forks} forks at once, until all have answered", "ms", None, many_forks),
    BenchRow("fork-long", "a fork after 100 calls, until its first result", "ms", None, long_fork),
    BenchRow(
        "neighbour",
        "a call beside a hostile session, by its time alone",
        "×",
        None,
        one_hostile,
        Target("≤ 2", 2.0, full_scale_only=True),
    ),
    BenchRow(
        "neighbour-four", "the same beside four", "×", None, four_hostile, Target("≤ 4", 4.0, full_scale_only=True)
    ),
    BenchRow(
        "neighbour-any",
        "calls beside each of many hostile sessions, the worst",
        "×",
        None,
        each_hostile,
        Target("≤ 2", 2.0, full_scale_only=True),
    ),
    BenchRow(
        "alive",
        "sessions alive at once, of {alive}",
        "",
        None,
        alive,
        Target("2000", 2000.0, full_scale_only=True),
        higher_is_better=True,
    ),
)
WIDTH, HEIGHT = 4000, 3000


def write_photo(path: Path, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Path:
    """Write the photo as JPEG and return `path`."""
    from PIL import Image, ImageDraw, ImageFont

    random = np.random.default_rng(20)
    scene = Image.fromarray(random.integers(20, 235, (24, 32, 3), dtype=np.uint8)).resize(
        size, Image.Resampling.BICUBIC
    )
    pen = ImageDraw.Draw(scene)
    font = ImageFont.load_default(max(8, size[1] // 60))
    for line in range(24):
        at = (int(random.integers(0, size[0])), size[1] * line // 24)
        colour = tuple(int(part) for part in random.integers(0, 256, 3))
        pen.text(at, f"saccade {line:02d} looks again", fill=colour, font=font)
        pen.rectangle((at[0] // 2, at[1], at[0] // 2 + size[0] // 40, at[1] + size[1] // 60), outline=colour, width=3)
    noise = random.integers(-8, 9, (size[1], size[0], 1), dtype=np.int8)
    pixels = np.clip(np.asarray(scene, dtype=np.int16) + noise, 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(path, "JPEG", quality=90)
    return path


PEERS: tuple[Callable[[], Peer], ...] = (Jupyter, Smolagents, Subprocess, Exec)


@dataclass(frozen=True, slots=True)
class RowResult:
    """One measured row: contender -> figure or reason."""

    row: BenchRow
    results: dict[str, Result]

    def median(self, contender: str) -> float | None:
        """Return the contender's figure, or None."""
        result = self.results.get(contender)
        return result.median if isinstance(result, Measurement) else None

    def met(self, scale: BenchScale) -> bool | None:
        """Return whether the target is reached; None if there is none or it was not measured."""
        ours = self.median(Saccade.name)
        if ours is None or self.row.target is None or not self.row.judged_at(scale):
            return None
        return self.row.target.met(ours, self.median(Jupyter.name), higher_is_better=self.row.higher_is_better)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run measured."""

    machine: Machine
    isolation: Isolation
    scale: BenchScale
    contenders: tuple[str, ...]
    rows: tuple[RowResult, ...]
    fork: tuple[float, ...]
    """Milliseconds: fork + exit + wait with the zygote's modules loaded."""
    drawing: tuple[float, ...]
    """Milliseconds: drawing the crop alone, one process for each core; empty if no row draws."""
    missing: tuple[str, ...]
    """Contenders that are not installed, each with what installs it."""

    @property
    def drawings_per_second(self) -> float | None:
        """The most crops per second that drawing alone leaves on these cores."""
        if not self.drawing:
            return None
        return self.machine.cores * len(self.drawing) * 1000.0 / sum(self.drawing)


def choose(names: Collection[str] | None) -> tuple[BenchRow, ...]:
    """Return the rows of those names, or all; raises `RegistryError` for an unknown one."""
    known = [row.name for row in ROWS]
    unknown = sorted(set(names or ()) - set(known))
    if unknown:
        raise RegistryError(f"no row is called {', '.join(unknown)}. Rows: {', '.join(known)}.")
    return tuple(row for row in ROWS if not names or row.name in names)


def measure(
    rows: Sequence[BenchRow],
    scale: BenchScale,
    *,
    peers: Sequence[Callable[[], Peer]] = PEERS,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Measure `rows` at that scale; `on_progress` is called with what is being measured."""
    machine = this_machine()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="saccade-bench-")))
        on_progress("the photo")
        setup = Setup(write_photo(folder / "photo.jpg"), scale, machine.cores)
        ours = stack.enter_context(Saccade())
        isolation = ours.isolation()
        contenders: list[Peer] = [ours, *(stack.enter_context(peer()) for peer in peers)]
        missing: dict[str, str] = {}
        results = tuple(_measured(row, contenders, setup, missing, on_progress) for row in rows)
        on_progress("the limits")
        draws = any(row.name in ("plot", "plots-many") for row in rows)
        return Report(
            machine=machine,
            isolation=isolation,
            scale=scale,
            contenders=tuple(peer.name for peer in contenders if peer.name not in missing),
            rows=results,
            fork=tuple(fork_milliseconds(3 * scale.repeats)),
            drawing=tuple(drawing_milliseconds(setup.photo, scale.repeats, machine.cores)) if draws else (),
            missing=tuple(missing.values()),
        )


def _measured(
    row: BenchRow, contenders: Sequence[Peer], setup: Setup, missing: dict[str, str], on_progress: Callable[[str], None]
) -> RowResult:
    results: dict[str, Result] = {}
    for peer in contenders:
        if peer.name in missing:
            continue
        on_progress(f"{row.name}: {peer.name}")
        try:
            results[peer.name] = _cell(row, peer, setup)
        except UnavailableError:
            missing[peer.name] = f"{peer.name} is not installed: {peer.install}"
        except Exception as error:  # a contender is foreign code: its failure is its result, not the end of the run
            results[peer.name] = NotMeasured(f"failed: {type(error).__name__}: {error}")
    return RowResult(row, results)


def _cell(row: BenchRow, peer: Peer, setup: Setup) -> Result:
    if row.measure is not None:
        return row.measure(peer, setup)
    if row.own is not None and isinstance(peer, Saccade):
        return row.own(peer, setup)
    return NotMeasured("none")


SCHEMA = 1


def heading(report: Report) -> list[str]:
    """Return the lines above the table: machine, isolation, warnings."""
    machine = report.machine
    off = [state.layer.value for state in report.isolation.layers if not state.on]
    lines = [
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.system}, "
        f"Python {machine.python}, load {machine.load:.2f}",
        f"isolation on: {', '.join(report.isolation.names) or 'none'}",
    ]
    if off:
        lines.append(f"isolation off: {', '.join(off)}")
    if machine.busy:
        lines.append(
            f"WARNING: the machine was busy (load {machine.load:.2f} on {machine.cores} cores); trust ratios only."
        )
    if report.scale != FULL:
        lines.append("A quick run: fewer repeats, smaller numbers of sessions; some targets are not judged.")
    return [*lines, *report.missing]


def table(report: Report) -> Table:
    """Show medians of each kind of work by contender, and whether the targets were met."""
    shown = Table(title="python -m benchmarks sandbox (medians, number of values in brackets)", title_justify="left")
    shown.add_column("work")
    shown.add_column("unit")
    for contender in report.contenders:
        shown.add_column(contender, justify="right")
    shown.add_column("ratio to jupyter", justify="right")
    shown.add_column("target", justify="right")
    shown.add_column("")
    for row in report.rows:
        cells = [_shown(row.results.get(contender)) for contender in report.contenders]
        target = row.row.target.text if row.row.target is not None else ""
        shown.add_row(
            f"{row.row.name}: {row.row.title_at(report.scale)}",
            row.row.unit,
            *cells,
            _ratio(row),
            target,
            _verdict(row, report),
        )
    return shown


def footing(report: Report) -> list[str]:
    """Return the lines below the table: the limits, and notes that do not fit into a cell."""
    lines = []
    if report.fork:
        lines.append(f"limit: fork + exit + wait with the zygote's modules: {statistics.median(report.fork):.1f} ms")
    if report.drawing and report.drawings_per_second is not None:
        lines.append(
            f"limit: drawing the crop alone, one plain process on each of {report.machine.cores} cores: "
            f"{statistics.median(report.drawing):.1f} ms, so at most {report.drawings_per_second:.1f} per second"
        )
    for row in report.rows:
        for contender, result in row.results.items():
            note = result.note if isinstance(result, Measurement) else result.reason
            if note and not (isinstance(result, NotMeasured) and len(note) <= 12):
                lines.append(f"{row.row.name}, {contender}: {note}")
    return lines


def as_json(report: Report) -> dict[str, object]:
    """Return everything, with all single values."""
    return {
        "schema": SCHEMA,
        "machine": report.machine.as_dict(),
        "isolation": report.isolation.model_dump(mode="json"),
        "scale": asdict(report.scale),
        "limits": {
            "fork_ms": list(report.fork),
            "drawing_ms": list(report.drawing),
            "drawings_per_second": report.drawings_per_second,
        },
        "missing": list(report.missing),
        "rows": [_row_json(row, report) for row in report.rows],
    }


def _row_json(row: RowResult, report: Report) -> dict[str, object]:
    results: dict[str, object] = {}
    for contender, result in row.results.items():
        if isinstance(result, Measurement):
            results[contender] = {"median": result.median, "values": list(result.values), "note": result.note}
        else:
            results[contender] = {"not_measured": result.reason}
    return {
        "name": row.row.name,
        "title": row.row.title_at(report.scale),
        "unit": row.row.unit,
        "target": row.row.target.text if row.row.target is not None else None,
        "met": row.met(report.scale),
        "results": results,
    }


def _shown(result: Result | None) -> str:
    if result is None:
        return ""
    if isinstance(result, NotMeasured):
        return result.reason if len(result.reason) <= 12 else "failed"
    value = result.median
    text = f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.1f}" if value >= 1 else f"{value:.2f}"
    return f"{text} ({len(result.values)})"


def _ratio(row: RowResult) -> str:
    ours, jupyter = row.median(Saccade.name), row.median(Jupyter.name)
    if not ours or not jupyter:
        return ""
    better = ours / jupyter if row.row.higher_is_better else jupyter / ours
    return f"{better:.0f}×" if better >= 10 else f"{better:.1f}×"


def _verdict(row: RowResult, report: Report) -> str:
    met = row.met(report.scale)
    if row.row.target is None:
        return ""
    return "not judged" if met is None else "met" if met else "MISSED"
