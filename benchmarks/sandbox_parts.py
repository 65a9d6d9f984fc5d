"""What each mechanism that is there for speed alone buys: `python -m benchmarks.sandbox_parts [--pairs 4] [NAME ...]`.

Each is measured in pairs with a copy of the package in which the line that calls it is another: with it, without it,
with it, ... For each row the lower quartile of the times (milliseconds) and the processor time of all processes
(seconds, 10 ms steps) are added up over the pairs; the table gives "without" divided by "with". `--forks` measures
instead what a bare fork, exit and wait of a process with the zygote's modules takes as memory is prepared step by step.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.figures import cpu_of
from saccade.plugins.audit.attacks.runner import descendants

PLOT = "import matplotlib.pyplot as plt\nplt.figure()\nplt.imshow(photo)\nplt.axis('off')\nplt.show()"
SOURCE = Path(__file__).resolve().parent.parent / "src"
PARTS: dict[str, tuple[str, str, str, str]] = {
    "rehearsal": ("sandbox/link.py", "REHEARSING_SESSIONS = 64", "REHEARSING_SESSIONS = -1", "call fail plot"),
    "large pages": ("guest/nursery.py", "    use_large_pages()\n", "", "at-once forks"),
    "large pages for what is allocated": (
        "sandbox/zygote_client.py",
        '        "GLIBC_TUNABLES": _MALLOC,\n',
        "",
        "plot at-once forks",
    ),
    "merged mappings": ("guest/nursery.py", "    merge_mappings()\n", "", "at-once forks"),
    "filled gaps": ("guest/nursery.py", "    fill_gaps()\n", "", "at-once call"),
    "memory given back": ("guest/session.py", "            give_back_memory()\n", "            pass\n", "after-plot"),
    "places": ("sandbox/capacity.py", "places or PLACES_PER_PROCESSOR * processors", "10**6", "plots-many"),
    "spare time": ("sandbox/capacity.py", "if self._waiting or self._later:", "if False:", "forks"),
    "branches of branches": ("sandbox/local.py", "if n >= together > 1:", "if False:", "forks"),
    "one question for each mapping": (
        "guest/inspection.py",
        "return list(itertools.islice(_query_shared(fd), MOST_MAPS + 1))",
        'raise OSError(errno.ENOTTY, "")',
        "call at-once",
    ),
}
"""Name -> file, what is in it, what is there without the mechanism, and the rows that it is for."""


_FORKS = """
import gc, os, time
from saccade.guest.preload import warm_up
warm_up()
from saccade.guest import compact
from saccade.guest.fork import Forker
forker = Forker()
gc.collect(); gc.freeze()
def cost():
    times = []
    for _ in range(400):
        began = time.perf_counter()
        pid = forker.fork()
        if pid == 0: os._exit(0)
        os.waitpid(pid, 0)
        times.append((time.perf_counter() - began) * 1000)
    times.sort()
    return f"{times[0]:.1f} | {times[40]:.1f} | {times[200]:.1f} |"
print("| memory | least, ms | first tenth | median |\\n|---|---|---|---|")
print("| as it is |", cost())
compact.merge_mappings()
print("| mappings merged |", cost())
print(f"| and {compact.use_large_pages()} large pages |", cost())
"""


async def _row(row: str) -> list[float]:
    """Return the times of the row's work, in milliseconds."""
    import numpy as np
    from PIL import Image

    from saccade.sandbox.local import LocalSandbox, LocalSession

    photo = Image.fromarray(np.random.default_rng(2).integers(0, 255, (900, 1200, 3), dtype=np.uint8))
    work = {"fail": "x = 2\nraise ValueError('no')", "plot": PLOT, "plots-many": PLOT}.get(row, "print(1 + 1)")

    async def calls(session: LocalSession, count: int, pause: float) -> list[float]:
        times = []
        for _ in range(count):
            await asyncio.sleep(pause)
            began = time.perf_counter()
            await session.run(work)
            times.append((time.perf_counter() - began) * 1000)
        return times

    async with LocalSandbox() as box:
        sessions = [await box.open({"photo": photo}) for _ in range(12 if row == "plots-many" else 1)]
        for session in sessions:
            await session.run(PLOT if "plot" in row else "1")
        if row == "forks":
            began = time.perf_counter()
            branches = await sessions[0].branch(60)
            places = asyncio.Semaphore(8)

            async def answer(branch: LocalSession) -> None:
                async with places:
                    await calls(branch, 1, 0)

            await asyncio.gather(*map(answer, branches))
            return [(time.perf_counter() - began) * 1000]
        if row == "plots-many":
            began = time.perf_counter()
            await asyncio.gather(*(calls(session, 2, 0) for session in sessions))
            return [(time.perf_counter() - began) * 1000]
        return await calls(sessions[0], *{"call": (20, 0.12), "fail": (20, 0.12), "plot": (8, 0.4)}.get(row, (60, 0)))


async def _measured(row: str) -> tuple[float, float]:
    """Return milliseconds (lower quartile), and processor seconds of everything that lives at its end."""
    task = asyncio.create_task(_row(row))
    used = 0.0
    while not task.done():
        await asyncio.wait({task}, timeout=0.5)
        with_ended = sum(_with_ended(pid) for pid in descendants(os.getpid()))
        used = max(used, with_ended)
    times = sorted(task.result())
    return times[len(times) // 4], used + time.process_time()


def _with_ended(pid: int) -> float:
    """Return processor seconds of a process and of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return cpu_of(pid) + (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def main() -> None:
    """Measure the parts that are named, or all, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--forks", action="store_true")
    wanted = parser.parse_args()
    if wanted.forks:
        subprocess.run([sys.executable, "-c", _FORKS], check=True)
        return
    if wanted.row:
        print(json.dumps(asyncio.run(_measured(wanted.row))))
        return
    print("| mechanism | row | time without / with | processor time |\n|---|---|---|---|")
    for name in wanted.names or PARTS:
        file, there, instead, rows = PARTS[name]
        with tempfile.TemporaryDirectory(prefix="saccade-parts-") as folder:
            shutil.copytree(SOURCE, f"{folder}/src", ignore=shutil.ignore_patterns("__pycache__"))
            changed = Path(folder, "src", "saccade", file)
            text = changed.read_text(encoding="utf-8")
            assert there in text, f"{file} no longer holds {there!r}"
            changed.write_text(text.replace(there, instead), encoding="utf-8")
            for row in rows.split():
                sums: dict[bool, list[float]] = defaultdict(lambda: [0.0, 0.0])
                for _ in range(wanted.pairs):
                    for without in (False, True):
                        path = f"{folder}/src" if without else str(SOURCE)
                        command = [sys.executable, "-m", "benchmarks.sandbox_parts", "--row", row]
                        environment = {**os.environ, "PYTHONPATH": path}
                        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                        found = json.loads(done.stdout)
                        sums[without] = [a + b for a, b in zip(sums[without], found, strict=True)]
                wall, cpu = (sums[True][index] / sums[False][index] for index in range(2))
                print(f"| {name} | `{row}` | {wall:.2f} | {cpu:.2f} |", flush=True)


if __name__ == "__main__":
    main()
