"""What no sandbox could beat on this machine: a bare fork, and matplotlib's drawing alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from saccade.errors import SandboxError

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
    """fork + exit + wait of a process that has numpy, Pillow, matplotlib and OpenCV loaded."""
    return _numbers(_ended(_python(_FORK, str(repeats))))


def drawing_milliseconds(photo: Path, repeats: int, processes: int) -> list[float]:
    """The drawing of the crop alone, in `processes` plain processes that work at the same time."""
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
