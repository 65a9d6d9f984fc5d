"""Runs the rows for every contender and gathers the figures; prints nothing.

Contenders take turns row by row, so that a machine that gets busier hurts all of them. One that is not installed is
left out with the command that installs it; one that fails in a row has the failure as its cell.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from saccade.bench import limits
from saccade.bench.machine import Machine, this_machine
from saccade.bench.measure import BenchScale, Measurement, NotMeasured, Result
from saccade.bench.ours import Saccade
from saccade.bench.peer import Peer
from saccade.bench.peer_exec import Exec
from saccade.bench.peer_jupyter import Jupyter
from saccade.bench.peer_smolagents import Smolagents
from saccade.bench.peer_subprocess import Subprocess
from saccade.bench.rows import ROWS, BenchRow
from saccade.bench.work import Setup
from saccade.errors import RegistryError, UnavailableError
from saccade.sandbox.isolation import Isolation

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
        """The contender's figure, or None."""
        result = self.results.get(contender)
        return result.median if isinstance(result, Measurement) else None

    def met(self, scale: BenchScale) -> bool | None:
        """Whether the target is reached; None if there is none or it was not measured."""
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
    """The rows of those names, or all; raises `RegistryError` for an unknown one."""
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
        contenders = [cast(Peer, ours), *(stack.enter_context(peer()) for peer in peers)]
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
            fork=tuple(limits.fork_milliseconds(3 * scale.repeats)),
            drawing=tuple(limits.drawing_milliseconds(setup.photo, scale.repeats, machine.cores)) if draws else (),
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
