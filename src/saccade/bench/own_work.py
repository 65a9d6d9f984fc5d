"""Work that only our sandbox can do: branches, and thousands of sessions alive at once."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

from saccade.bench.machine import descendants, pss_bytes
from saccade.bench.measure import Measurement, Result, checked, milliseconds
from saccade.bench.ours import Saccade, SaccadeSession
from saccade.bench.work import MIB, TRIVIAL, Setup
from saccade.errors import SaccadeError


def start_provider(_: Saccade, setup: Setup) -> Result:
    """The zygote itself, once for all sessions: from nothing to a first session, in milliseconds."""

    def work() -> None:
        with Saccade() as fresh:
            fresh.start().close()

    return Measurement(tuple(milliseconds(work) for _ in range(min(3, setup.scale.slow_repeats))))


def branch_time(ours: Saccade, setup: Setup) -> Result:
    """Branches of a session that holds the photo and a large array: all together, in milliseconds."""
    return _branches(ours, setup)[0]


def branch_memory(ours: Saccade, setup: Setup) -> Result:
    """What one of those branches adds to the memory of all processes (PSS), in MB."""
    return _branches(ours, setup)[1]


def alive(ours: Saccade, setup: Setup) -> Result:
    """How many sessions are alive at once and answer, of those asked for."""
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


def _branches(ours: Saccade, setup: Setup) -> tuple[Result, ...]:
    key = ("branches", ours.name)
    if key not in setup.shared:
        setup.shared[key] = _measure_branches(ours, setup)
    return setup.shared[key]


def _measure_branches(ours: Saccade, setup: Setup) -> tuple[Result, ...]:
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
