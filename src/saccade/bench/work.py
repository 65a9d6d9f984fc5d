"""The work that is measured: one function per row, the same for every contender.

A function gets the contender and the setup and returns every single value. It raises `UnavailableError` if the
contender is not installed; a contender that cannot do the work at all is `NotMeasured`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from saccade.bench.machine import descendants, pss_bytes
from saccade.bench.measure import BenchScale, Measurement, NotMeasured, Result, checked, milliseconds
from saccade.bench.peer import Peer, PeerSession

FIRST = "import numpy, PIL.Image, matplotlib.pyplot as plt\nprint('ready')"
LOOK = "print(image_clue_0.size, image_clue_0.getpixel((7, 7)))"
TRIVIAL = "print(1 + 1)"
FAILING = "x = 2\nraise ValueError('no')"
PLOT = (
    "import matplotlib.pyplot as plt\nplt.figure()\n"
    "plt.imshow(image_clue_0.crop((1000, 800, 2200, 1700)))\nplt.axis('off')\nplt.show()"
)
SHOW = "image_clue_0.crop((1000, 800, 2200, 1700)).show()"
MIB = 1024 * 1024
T = TypeVar("T")


@dataclass(frozen=True)
class Setup:
    """What the rows share."""

    photo: Path
    scale: BenchScale
    cores: int
    shared: dict[tuple[str, str], tuple[Result, ...]] = field(default_factory=dict)
    """Results of work that gives the figures of two rows, by work and contender."""

    def repeats(self, peer: Peer) -> int:
        """How often to measure something that needs a new session each time."""
        return self.scale.slow_repeats if peer.slow else self.scale.repeats


def start(peer: Peer, setup: Setup) -> Result:
    """From nothing to the first print, numpy, Pillow and matplotlib imported."""
    return Measurement(tuple(_first_cell(peer, None, FIRST, "ready") for _ in range(setup.repeats(peer))))


def start_picture(peer: Peer, setup: Setup) -> Result:
    """The same with the photo as a variable whose pixels are read; one session has used the photo before."""
    _first_cell(peer, setup.photo, LOOK, "(4000, 3000)")
    values = (_first_cell(peer, setup.photo, LOOK, "(4000, 3000)") for _ in range(setup.repeats(peer)))
    return Measurement(tuple(values))


def call_after_pause(peer: Peer, setup: Setup) -> Result:
    """A trivial call in a warm session, after a pause as a model makes."""
    return _calls(peer, setup, setup.scale.think_seconds)


def call_at_once(peer: Peer, setup: Setup) -> Result:
    """A trivial call right after the one before."""
    return _calls(peer, setup, 0.0)


def failing_call(peer: Peer, setup: Setup) -> Result:
    """A call that changes a variable and raises."""
    session = peer.start()
    try:
        session.run("x = 1")
        values = []
        for _ in range(setup.scale.repeats):
            time.sleep(setup.scale.think_seconds)
            values.append(milliseconds(lambda: session.run(FAILING)))
        kept = session.run("print(x)")
    finally:
        session.close()
    note = "rolled back" if kept.text.strip() == "1" else "not rolled back" if peer.keeps_state else "no state"
    return Measurement(tuple(values), note)


def crop_plot(peer: Peer, setup: Setup) -> Result:
    """A crop of the photo shown with `plt.show()`."""
    return _pictures(peer, setup, PLOT)


def crop_show(peer: Peer, setup: Setup) -> Result:
    """A crop of the photo shown with `Image.show()`."""
    if not peer.shows_images:
        return NotMeasured("no picture")
    return _pictures(peer, setup, SHOW)


def many_start(peer: Peer, setup: Setup) -> Result:
    """Seconds until many sessions, asked for at once, have all printed."""
    return _many(peer, setup)[0]


def many_crops(peer: Peer, setup: Setup) -> Result:
    """Crops shown with `plt.show()` per second, over many sessions at once."""
    return _many(peer, setup)[1]


def idle_memory(peer: Peer, setup: Setup) -> Result:
    """MB (2**20 bytes) per idle session: PSS of all processes behind them and growth of the caller, by their number.

    Numpy, Pillow and matplotlib are imported, by the contender itself or by a first cell.
    """
    return _memory(peer, setup)[0]


def memory_after_call(peer: Peer, setup: Setup) -> Result:
    """The same after each session has run a first cell."""
    return _memory(peer, setup)[1]


def _memory(peer: Peer, setup: Setup) -> tuple[Result, ...]:
    key = ("memory", peer.name)
    if key not in setup.shared:
        setup.shared[key] = _measure_memory(peer, setup)
    return setup.shared[key]


def _measure_memory(peer: Peer, setup: Setup) -> tuple[Result, ...]:
    if not peer.keeps_state:
        return NotMeasured("no session"), NotMeasured("no session")
    count = setup.scale.slow_idle if peer.slow else setup.scale.idle
    own, known = {os.getpid()}, descendants(os.getpid())
    before = pss_bytes(own)
    # A fresh contender of the same kind, so that everything it needs is counted.
    with type(peer)() as fresh, ThreadPoolExecutor(4 if peer.parallel else 1) as pool:
        sessions = list(pool.map(lambda _: fresh.start(), range(count)))

        def each() -> float:
            time.sleep(0.5)
            total = pss_bytes(descendants(os.getpid()) - known) + max(0, pss_bytes(own) - before)
            return total / count / MIB

        try:
            opened = each()
            for session in sessions:
                checked(session, FIRST, text="ready")
            called = each()
        finally:
            list(pool.map(_close, sessions))
    # Without the libraries, which a first cell has to import, a session would be flattered.
    note = f"{count} sessions"
    return Measurement((opened if peer.libraries_at_start else called,), note), Measurement((called,), note)


def _close(session: PeerSession) -> None:
    session.close()


def _first_cell(peer: Peer, photo: Path | None, code: str, text: str) -> float:
    began = time.perf_counter()
    session = peer.start(photo)
    try:
        checked(session, code, text=text)
        return (time.perf_counter() - began) * 1000.0
    finally:
        session.close()


def _calls(peer: Peer, setup: Setup, pause: float) -> Result:
    session = peer.start()
    try:
        for _ in range(3):
            checked(session, TRIVIAL, text="2")
        values = []
        for _ in range(3 * setup.repeats(peer)):
            time.sleep(pause)
            values.append(milliseconds(lambda: checked(session, TRIVIAL, text="2")))
        return Measurement(tuple(values))
    finally:
        session.close()


def _pictures(peer: Peer, setup: Setup, code: str) -> Result:
    session = peer.start(setup.photo)
    try:
        if peer.picture_setup:
            session.run(peer.picture_setup)
        checked(session, code, pictures=1)
        values = []
        for _ in range(setup.scale.repeats if peer.keeps_state else setup.repeats(peer)):
            time.sleep(setup.scale.think_seconds)
            values.append(milliseconds(lambda: checked(session, code, pictures=1)))
        return Measurement(tuple(values))
    finally:
        session.close()


def _many(peer: Peer, setup: Setup) -> tuple[Result, ...]:
    key = ("many", peer.name)
    if key not in setup.shared:
        setup.shared[key] = _measure_many(peer, setup)
    return setup.shared[key]


def _measure_many(peer: Peer, setup: Setup) -> tuple[Result, ...]:
    count = setup.scale.many

    def first(_: int) -> PeerSession:
        session = peer.start(None)
        checked(session, FIRST, text="ready")
        return session

    def with_photo(_: int) -> PeerSession:
        session = peer.start(setup.photo)
        if peer.picture_setup:
            session.run(peer.picture_setup)
        checked(session, PLOT, pictures=1)
        return session

    def crops(session: PeerSession) -> None:
        for _ in range(2):
            checked(session, PLOT, pictures=1)

    with ThreadPoolExecutor(count if peer.parallel else 1) as pool:
        seconds, sessions = _timed(lambda: list(pool.map(first, range(count))))
        list(pool.map(_close, sessions))
        sessions = list(pool.map(with_photo, range(count)))
        try:
            drawing, _ = _timed(lambda: list(pool.map(crops, sessions)))
        finally:
            list(pool.map(_close, sessions))
    return Measurement((seconds,)), Measurement((2 * count / drawing,))


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result
