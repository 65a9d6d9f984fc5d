"""A call next to hostile sessions, by its time alone: rows of `python -m benchmarks sandbox`.

Each program of `HOSTILE` is run again and again, in a session of its own, by a host that takes all that comes back.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator

from benchmarks.sandbox_peers import Measurement, Result, Saccade, SaccadeSession, milliseconds
from benchmarks.sandbox_work import TRIVIAL, Setup
from saccade.errors import SaccadeError

SPIN = """
import threading
def spin():
    while True: pass
for _ in range(16): threading.Thread(target=spin).start()
spin()
"""
"""Computes in as many threads as it is allowed, until its time is over."""
_MAPS = """
import ctypes, mmap
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
"""
HOSTILE = {
    "threads": SPIN,
    "mappings": _MAPS + "for n in range(40_000): libc.mmap(None, 4096, 1 + n % 2 * 2, 0x22, -1, 0)",
    "shared mappings": "import mmap\nkept = [mmap.mmap(-1, 4096) for _ in range(20_000)]",
    "mapped files": """
import mmap
open('f', 'wb').write(bytes(1 << 20))
kept = [mmap.mmap(open('f', 'r+b').fileno(), 4096, offset=4096 * n) for n in range(100)]
""",
    "descriptors": "kept = []\nwhile True: kept.append(open('/dev/null'))",
    "descriptors that stay": "kept = [open('/dev/null') for _ in range(200)]",
    "files": "for n in range(2000): open(f'f{n}', 'w').write('x')",
    "files, undone": "for n in range(2000): open(f'f{n}', 'w').write('x')\n1 / 0",
    "long names": "for n in range(2000): open(f'{n:0250}', 'w').close()",
    "deep folders": "import os\nfor n in range(1500):\n    os.mkdir('d')\n    os.chdir('d')",
    "a full disk": "for n in range(2): open(f'f{n}', 'wb').write(bytes(60 << 20))",
    "processes": "import os\nfor _ in range(10_000):\n    try: os.fork()\n    except OSError: pass",
    "short threads": """
import threading
for _ in range(5000):
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
""",
    "memory": "import numpy as np\nkept = np.ones(1_500_000_000, np.uint8)",
    "too much memory": "kept = []\nwhile True: kept.append(b'x' * (16 << 20))",
    "frames": """
import os
while True:
    for fd in range(3, 40):
        try: os.write(fd, b'{"op": "ready", "pid": 1}')
        except OSError: pass
""",
    "output": "while True: print('x' * 10_000)",
    "output of C": "import os\nfor _ in range(1 << 20): os.write(1, b'x' * 4096)",
    "pictures": "import numpy as np\nfrom PIL import Image\n"
    "for n in range(16): Image.fromarray(np.full((2000, 2000, 3), n, np.uint8)).show()",
    "large values": "import numpy as np\n[np.ones(500_000) for _ in range(8)]",
    "exceptions": "def f(): f()\nf()",
    "stops": "import os, signal\nwhile True: os.kill(0, signal.SIGSTOP)",
    "ends": "import os\nos._exit(1)",
    "kept ends": "import atexit, os, sys\nsys.stdout = None\nos.close(0)",
    "system calls": "import os\nwhile True: os.getppid()",
    "patched runtime": "import json\njson.loads = json.dumps = None",
}
"""Name -> what a session does to its neighbours."""
_NEIGHBOUR = "print(sum(i * i for i in range(200_000)) % 7)"
_START_SECONDS = 0.3
_CALLS = 12


def one_hostile(ours: Saccade, setup: Setup) -> Result:
    """Measure a computing call next to one session that computes: so many times its time alone."""
    return _beside(ours, setup, 1)


def four_hostile(ours: Saccade, setup: Setup) -> Result:
    """Measure the same next to four."""
    return _beside(ours, setup, 4)


def _beside(ours: Saccade, setup: Setup, hostile: int) -> Result:
    session = ours.start()
    try:
        alone = _median(session, setup)
        with contextlib.ExitStack() as stack:
            for _ in range(hostile):
                stack.enter_context(hostile_session(ours, SPIN))
            time.sleep(_START_SECONDS)
            beside = _median(session, setup)
    finally:
        session.close()
    return Measurement((beside / alone,), f"{alone:.0f} ms alone, {beside:.0f} ms beside {hostile}")


def _median(session: SaccadeSession, setup: Setup) -> float:
    return statistics.median(milliseconds(lambda: session.run(_NEIGHBOUR)) for _ in range(setup.scale.slow_repeats * 3))


@contextlib.contextmanager
def hostile_session(ours: Saccade, code: str) -> Iterator[None]:
    """Let a session run `code` again and again for the length of the block."""
    over = threading.Event()
    enemy = ours.start()

    def attack() -> None:
        with contextlib.suppress(SaccadeError):  # it is closed in the middle of a call
            while not over.is_set():
                enemy.run(code)

    thread = threading.Thread(target=attack)
    thread.start()
    try:
        yield
    finally:
        over.set()
        enemy.close()
        thread.join()


def each_hostile(ours: Saccade, setup: Setup) -> Result:
    """Measure calls next to each program of `HOSTILE` in turn: so many times their time alone, a figure for each."""
    del setup
    ratios: dict[str, float] = {}
    session = ours.start()
    try:
        for name, code in HOSTILE.items():
            alone = _total(session)
            with hostile_session(ours, code):
                time.sleep(_START_SECONDS)
                ratios[name] = _total(session) / alone
    finally:
        session.close()
    worst = sorted(ratios, key=lambda name: -ratios[name])
    note = ", ".join(f"{name} {ratios[name]:.1f}" for name in worst[:5])
    return Measurement((ratios[worst[0]],), f"the worst of {len(ratios)}: {note}")


def _total(session: SaccadeSession) -> float:
    """Return milliseconds of calls in a row, short ones and some that compute: one that waits for long shows, too."""
    return sum(milliseconds(lambda code=code: session.run(code)) for code in (TRIVIAL, _NEIGHBOUR) * _CALLS)  # type: ignore[misc]
