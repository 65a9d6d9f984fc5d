"""How often, how many, how large: the scale of a run, and the single measurements that it gives."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from saccade.bench.peer import Output, PeerSession
from saccade.errors import SandboxError


@dataclass(frozen=True, slots=True)
class BenchScale:
    """Sizes of a run. Targets hold for `FULL`; a row that a smaller scale makes easier is not judged against its."""

    repeats: int
    """Measurements of a short thing."""
    slow_repeats: int
    """The same where a session takes a second to start."""
    many: int
    """Sessions in the rows that use many at once."""
    idle: int
    """Idle sessions whose memory is taken."""
    slow_idle: int
    alive: int
    """Sessions that are to be alive at once."""
    array_bytes: int
    """The array in the session that is branched."""
    branches: int = 8
    forks: int = 1000
    """Forks of one session at once."""
    think_seconds: float = 0.05
    """Pause between calls: a model takes longer to write the next one."""


FULL = BenchScale(repeats=30, slow_repeats=5, many=32, idle=100, slow_idle=4, alive=2000, array_bytes=500_000_000)
QUICK = BenchScale(
    repeats=8, slow_repeats=2, many=8, idle=20, slow_idle=2, alive=200, array_bytes=100_000_000, forks=100
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Every single value of one contender in one row, in the row's unit."""

    values: tuple[float, ...]
    note: str = ""
    """What a reader must know to compare it."""

    @property
    def median(self) -> float:
        """The figure that is shown."""
        return statistics.median(self.values)


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """Why a contender has no figure in a row."""

    reason: str


Result = Measurement | NotMeasured


def milliseconds(work: Callable[[], object]) -> float:
    """How long `work` takes."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000.0


def checked(session: PeerSession, code: str, *, text: str = "", pictures: int = 0) -> Output:
    """Run a cell that must work: a figure for work that was not done would be worth nothing.

    Raises `SandboxError` if the cell fails, does not print `text`, or gives another number of pictures.
    """
    output = session.run(code)
    if output.failed or text not in output.text or output.pictures != pictures:
        raise SandboxError(
            f"a benchmark cell did not do its work (failed: {output.failed}, {output.pictures} pictures instead of "
            f"{pictures}, printed {output.text[-200:]!r}):\n{code}"
        )
    return output
