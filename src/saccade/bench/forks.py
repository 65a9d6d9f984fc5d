"""Forks by the hundred from a warm state, a fork after a long session, and a call beside hostile sessions."""

from __future__ import annotations

import os
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from saccade.bench.machine import descendants, pss_bytes
from saccade.bench.measure import Measurement, NotMeasured, Result, checked, milliseconds
from saccade.bench.ours import Saccade, SaccadeSession
from saccade.bench.work import MIB, Setup
from saccade.errors import SaccadeError

FEW_FORKS = 50
LONG_CALLS = 100
HOSTILE = """
import threading
def spin():
    while True: pass
for _ in range(16): threading.Thread(target=spin).start()
spin()
"""
"""Computes in as many threads as it is allowed, until its time is over."""
_NEIGHBOUR = "print(sum(i * i for i in range(200_000)) % 7)"
_START_SECONDS = 0.3


def few_forks(ours: Saccade, setup: Setup) -> Result:
    """Fifty forks of a session with a large array, until every one has given its first result; milliseconds."""
    return _forks(ours, min(FEW_FORKS, setup.scale.forks), setup.scale.array_bytes)


def many_forks(ours: Saccade, setup: Setup) -> Result:
    """The same of a small session, by the hundred or the thousand; milliseconds."""
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
    """One fork after a hundred kept calls, until it has given its first result; milliseconds."""
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


def one_hostile(ours: Saccade, setup: Setup) -> Result:
    """A computing call beside one hostile session: so many times its time alone."""
    return _beside(ours, setup, 1)


def four_hostile(ours: Saccade, setup: Setup) -> Result:
    """The same beside four."""
    return _beside(ours, setup, 4)


def _beside(ours: Saccade, setup: Setup, hostile: int) -> Result:
    session = ours.start()
    enemies = [ours.start() for _ in range(hostile)]
    try:
        alone = _median(session, setup)
        threads = [threading.Thread(target=enemy.run, args=(HOSTILE,)) for enemy in enemies]
        for thread in threads:
            thread.start()
        time.sleep(_START_SECONDS)
        beside = _median(session, setup)
    finally:
        for each in (*enemies, session):
            each.close()
    for thread in threads:
        thread.join()
    return Measurement((beside / alone,), f"{alone:.0f} ms alone, {beside:.0f} ms beside {hostile}")


def _median(session: SaccadeSession, setup: Setup) -> float:
    return statistics.median(milliseconds(lambda: session.run(_NEIGHBOUR)) for _ in range(setup.scale.slow_repeats * 3))
