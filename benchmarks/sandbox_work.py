"""The work that `python -m benchmarks sandbox` measures: one function per row, the same for every contender.

A function gets the contender and the setup and returns every single value. It raises `UnavailableError` if the
contender is not installed; a contender that cannot do the work at all is `NotMeasured`. Work that only our sandbox can
do (branches, thousands of sessions, hostile neighbours) and the limits of the machine (a bare fork, matplotlib's
drawing) follow at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks.figures import pss_bytes
from benchmarks.sandbox_peers import (
    BenchScale,
    Measurement,
    NotMeasured,
    Peer,
    PeerSession,
    Result,
    Saccade,
    SaccadeSession,
    checked,
    milliseconds,
)
from saccade.errors import SaccadeError, SandboxError
from saccade.plugins.audit.attacks.runner import descendants

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
        """Return how often to measure something that needs a new session each time."""
        return self.scale.slow_repeats if peer.slow else self.scale.repeats


def start(peer: Peer, setup: Setup) -> Result:
    """Measure the time from nothing to the first print, numpy, Pillow and matplotlib imported."""
    return Measurement(tuple(_first_cell(peer, None, FIRST, "ready") for _ in range(setup.repeats(peer))))


def start_picture(peer: Peer, setup: Setup) -> Result:
    """Measure the same with the photo as a variable whose pixels are read; one session has used the photo before."""
    _first_cell(peer, setup.photo, LOOK, "(4000, 3000)")
    values = (_first_cell(peer, setup.photo, LOOK, "(4000, 3000)") for _ in range(setup.repeats(peer)))
    return Measurement(tuple(values))


def call_after_pause(peer: Peer, setup: Setup) -> Result:
    """Measure a trivial call in a warm session, after a pause as a model makes."""
    return _calls(peer, setup, setup.scale.think_seconds)


def call_at_once(peer: Peer, setup: Setup) -> Result:
    """Measure a trivial call right after the one before."""
    return _calls(peer, setup, 0.0)


def failing_call(peer: Peer, setup: Setup) -> Result:
    """Measure a call that changes a variable and raises."""
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
    """Measure a crop of the photo shown with `plt.show()`."""
    return _pictures(peer, setup, PLOT)


def crop_show(peer: Peer, setup: Setup) -> Result:
    """Measure a crop of the photo shown with `Image.show()`."""
    if not peer.shows_images:
        return NotMeasured("no picture")
    return _pictures(peer, setup, SHOW)


def many_start(peer: Peer, setup: Setup) -> Result:
    """Measure the seconds until many sessions, asked for at once, have all printed."""
    return _many(peer, setup)[0]


def many_crops(peer: Peer, setup: Setup) -> Result:
    """Count crops shown with `plt.show()` per second, over many sessions at once."""
    return _many(peer, setup)[1]


def idle_memory(peer: Peer, setup: Setup) -> Result:
    """Measure MB (2**20 bytes) per idle session: PSS of all their processes and growth of the caller, by their number.

    Numpy, Pillow and matplotlib are imported, by the contender itself or by a first cell.
    """
    return _memory(peer, setup)[0]


def memory_after_call(peer: Peer, setup: Setup) -> Result:
    """Measure the same after each session has run a first cell."""
    return _memory(peer, setup)[1]


P = TypeVar("P", bound=Peer)


def _once(measure: Callable[[P, Setup], tuple[Result, ...]]) -> Callable[[P, Setup], tuple[Result, ...]]:
    """Decorate work that gives the figures of two rows, so that it is done once for each contender."""

    def shared(peer: P, setup: Setup) -> tuple[Result, ...]:
        key = (measure.__name__, peer.name)
        if key not in setup.shared:
            setup.shared[key] = measure(peer, setup)
        return setup.shared[key]

    return shared


@_once
def _memory(peer: Peer, setup: Setup) -> tuple[Result, ...]:
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


@_once
def _many(peer: Peer, setup: Setup) -> tuple[Result, ...]:
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


def start_provider(_: Saccade, setup: Setup) -> Result:
    """Measure the zygote itself, once for all sessions: from nothing to a first session, in milliseconds."""

    def work() -> None:
        with Saccade() as fresh:
            fresh.start().close()

    return Measurement(tuple(milliseconds(work) for _ in range(min(3, setup.scale.slow_repeats))))


def branch_time(ours: Saccade, setup: Setup) -> Result:
    """Measure branches of a session that holds the photo and a large array: all together, in milliseconds."""
    return _branches(ours, setup)[0]


def branch_memory(ours: Saccade, setup: Setup) -> Result:
    """Measure what one of those branches adds to the memory of all processes (PSS), in MB."""
    return _branches(ours, setup)[1]


def alive(ours: Saccade, setup: Setup) -> Result:
    """Count how many sessions are alive at once and answer, of those asked for."""
    del ours  # a fresh one, so that its memory can be measured
    sessions: list[SaccadeSession] = []
    known = descendants(os.getpid())
    note = ""
    began = time.perf_counter()
    with Saccade() as fresh, ThreadPoolExecutor(8) as pool:
        try:
            for session in pool.map(lambda _: fresh.start(), range(setup.scale.alive)):
                sessions.append(session)
        except SaccadeError as error:
            note = f"stopped by: {str(error).splitlines()[0][:120]}; "
        seconds = time.perf_counter() - began
        answering = sum(pool.map(lambda session: session.run(TRIVIAL).text.strip() == "2", sessions))
        each = pss_bytes(descendants(os.getpid()) - known) / max(1, len(sessions)) / MIB
        time.sleep(0.5)
        call = milliseconds(lambda: checked(sessions[0], TRIVIAL, text="2")) if sessions else 0.0
    note += f"{len(sessions)} of {setup.scale.alive} in {seconds:.1f} s, {each:.1f} MB each, then a call {call:.1f} ms"
    return Measurement((float(answering),), note)


@_once
def _branches(ours: Saccade, setup: Setup) -> tuple[Result, ...]:
    count = setup.scale.branches
    fill = (
        f"import numpy as np\nimage_clue_0.load()\ndata = np.ones({setup.scale.array_bytes}, np.uint8)\nprint(data[9])"
    )
    times: list[float] = []
    added: list[float] = []
    session = ours.start(setup.photo)
    try:
        checked(session, fill, text="1")
        for _ in range(max(2, setup.scale.slow_repeats)):
            time.sleep(1.0)  # until then the copies before may still be ending
            before = pss_bytes(descendants(os.getpid()))
            branches: list[SaccadeSession] = []
            times.append(milliseconds(lambda into=branches: into.extend(session.branch(count))))  # type: ignore[misc]
            try:
                time.sleep(0.5)
                added.append((pss_bytes(descendants(os.getpid())) - before) / count / MIB)
                for branch in branches:
                    checked(branch, "print(data[9] + len(data) % 2)", text="1")
            finally:
                for branch in branches:
                    branch.close()
    finally:
        session.close()
    return Measurement(tuple(times)), Measurement(tuple(added))


FEW_FORKS = 50
LONG_CALLS = 100


def few_forks(ours: Saccade, setup: Setup) -> Result:
    """Measure fifty forks of a session with a large array, until every one has given its first result; milliseconds."""
    return _forks(ours, min(FEW_FORKS, setup.scale.forks), setup.scale.array_bytes)


def many_forks(ours: Saccade, setup: Setup) -> Result:
    """Measure the same of a small session, by the hundred or the thousand; milliseconds."""
    return _forks(ours, setup.scale.forks, 1)


def _forks(ours: Saccade, count: int, array_bytes: int) -> Result:
    session = ours.start()
    branches: list[SaccadeSession] = []
    try:
        checked(session, f"import numpy as np\ndata = np.ones({array_bytes}, np.uint8)\nprint(data[0])", text="1")
        before = pss_bytes(descendants(os.getpid()))
        began = time.perf_counter()
        branches.extend(session.branch(count))
        made = (time.perf_counter() - began) * 1000.0
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda branch: branch.run("print(data[0])").text.strip(), branches))
        all_answered = (time.perf_counter() - began) * 1000.0
        if set(answers) != {"1"}:
            return NotMeasured(f"{answers.count('1')} of {count} branches answered")
        each = (pss_bytes(descendants(os.getpid())) - before) / count / MIB
    except SaccadeError as error:
        return NotMeasured(str(error).splitlines()[0][:300])
    finally:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(SaccadeSession.close, branches))
        session.close()
    return Measurement((all_answered,), f"made in {made:.0f} ms, {each:.1f} MB each after a first call")


def long_fork(ours: Saccade, setup: Setup) -> Result:
    """Measure one fork after a hundred kept calls, until it has given its first result; milliseconds."""
    session = ours.start()
    try:
        for number in range(min(LONG_CALLS, setup.scale.forks)):
            checked(session, f"kept_{number} = list(range({number}))\nprint({number})", text=str(number))
        times = []
        for _ in range(setup.scale.slow_repeats):
            time.sleep(setup.scale.think_seconds)
            twins: list[SaccadeSession] = []

            def work(into: list[SaccadeSession] = twins) -> None:
                into.extend(session.branch(1))
                checked(into[0], "print(len(kept_1))", text="1")

            times.append(milliseconds(work))
            twins[0].close()
    finally:
        session.close()
    return Measurement(tuple(times))


_FORK = """
import gc, json, os, sys, time
import numpy, PIL.Image, matplotlib.pyplot, cv2
gc.freeze()
times = []
for _ in range(int(sys.argv[1])):
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    times.append((time.perf_counter() - start) * 1000)
print(json.dumps(times))
"""
_DRAW = """
import json, sys, time
import matplotlib
matplotlib.use('Agg')
import matplotlib.pyplot as plt
from PIL import Image
image_clue_0 = Image.open(sys.argv[1])
image_clue_0.load()
def draw():
    figure = plt.figure()
    plt.imshow(image_clue_0.crop((1000, 800, 2200, 1700)))
    plt.axis('off')
    figure.canvas.draw()
    bytes(figure.canvas.buffer_rgba())
    plt.close(figure)
draw()
sys.stdout.write('ready\\n')
sys.stdout.flush()
sys.stdin.readline()
times = []
for _ in range(int(sys.argv[2])):
    start = time.perf_counter()
    draw()
    times.append((time.perf_counter() - start) * 1000)
print(json.dumps(times))
"""


def fork_milliseconds(repeats: int) -> list[float]:
    """Measure fork + exit + wait of a process that has numpy, Pillow, matplotlib and OpenCV loaded."""
    return _numbers(_ended(_python(_FORK, str(repeats))))


def drawing_milliseconds(photo: Path, repeats: int, processes: int) -> list[float]:
    """Measure the drawing of the crop alone, in `processes` plain processes that work at the same time."""
    started = [_python(_DRAW, str(photo), str(repeats)) for _ in range(processes)]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [value for process in started for value in _numbers(_ended(process))]


def _python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )


def _ended(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=300)
    if process.returncode != 0:
        raise SandboxError(f"a reference process of the benchmark failed: {errors.strip()[-500:]}")
    return out


def _numbers(text: str) -> list[float]:
    return [float(value) for value in json.loads(text.splitlines()[-1])]
