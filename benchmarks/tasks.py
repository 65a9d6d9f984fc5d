"""`python -m benchmarks tasks`: how soon a large source of tasks is open, and how much memory that takes.

Each form is opened in a process of its own, so that its peak of memory is its own; what Python and the packages take
is in it. Pictures are there and are not opened: those of one file of rows are looked for, one task of each is made.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.figures import Figure
from saccade.errors import DataError
from saccade.media.store import MediaStore
from saccade.record.codec import dumps
from saccade.record.task import NamedMedia, Task

SECONDS, MIB = 5.0, 500.0
"""What 100,000 tasks may take."""
_OPEN = """
import json, sys, tempfile, time
from saccade.media.store import MediaStore
from saccade.tasks.sources.task_set import open_tasks
began = time.perf_counter()
tasks = open_tasks([sys.argv[1]])
opened = time.perf_counter() - began
# Not `ru_maxrss`, which knows the peak of the process that started this one.
peak = int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) / 1024
with tempfile.TemporaryDirectory() as folder:
    shown = len(tasks.make(tasks.ids[len(tasks) // 2], MediaStore(folder)).media)
print(json.dumps([len(tasks), shown, opened, peak]))
"""


@dataclass(frozen=True, slots=True)
class TasksScale:
    """Sizes of a run."""

    tasks: int = 100_000
    pictures: int = 200
    """Files that the rows take turns to name."""


FULL_TASKS = TasksScale()
QUICK_TASKS = TasksScale(tasks=5000, pictures=20)


def measure_tasks(scale: TasksScale, on_progress: Callable[[str], None] = lambda what: None) -> list[Figure]:
    """Measure every figure. Raises `DataError` if a source does not give all its tasks."""
    figures = []
    with tempfile.TemporaryDirectory(prefix="saccade-bench-") as folder:
        for name, source in _sources(Path(folder), scale, on_progress):
            on_progress(f"opening {name}")
            seconds, mib = _opened(source, scale.tasks)
            judged = scale == FULL_TASKS
            figures += [
                Figure(
                    f"{scale.tasks} tasks open, {name}",
                    seconds,
                    "s",
                    target=f"≤ {SECONDS:.0f}",
                    met=seconds <= SECONDS if judged else None,
                ),
                Figure(
                    f"peak of memory, {name}", mib, "MiB", target=f"≤ {MIB:.0f}", met=mib <= MIB if judged else None
                ),
            ]
    return figures


def _sources(folder: Path, scale: TasksScale, on_progress: Callable[[str], None]) -> Iterator[tuple[str, Path]]:
    on_progress("making sources")
    photos = folder / "photos"
    photos.mkdir()
    for number in range(scale.pictures):
        Image.new("RGB", (64, 48), (number % 256, 80, 120)).save(photos / f"{number}.jpg")
    rows = photos / "questions.jsonl"
    rows.write_text("".join(json.dumps(_row(number, scale)) + "\n" for number in range(scale.tasks)), encoding="utf-8")
    yield "JSON lines and pictures", rows
    yield "records with their store", _records(folder / "records", photos, scale)
    yield "parquet with pictures inside", _parquet(folder / "rows.parquet", photos, scale)


def _row(number: int, scale: TasksScale) -> dict[str, Any]:
    return {
        "id": number,
        "image": f"{number % scale.pictures}.jpg",
        "question": f"What colour is thing number {number} beside the door?",
        "answer": ("red", "blue", "7", "yes")[number % 4],
        "category": ("text", "count")[number % 2],
    }


def _records(folder: Path, photos: Path, scale: TasksScale) -> Path:
    store = MediaStore(folder / "media")
    parts = [store.put_file(photos / f"{number}.jpg") for number in range(scale.pictures)]
    with (folder / "tasks.jsonl").open("w", encoding="utf-8") as file:
        for number in range(scale.tasks):
            row = _row(number, scale)
            media = (NamedMedia(name="image_0", part=parts[number % scale.pictures]),)
            task = Task(id=f"t/{number}", question=row["question"], answer=row["answer"], media=media, tags=("a=b",))
            file.write(dumps(task) + "\n")
    return folder


def _parquet(file: Path, photos: Path, scale: TasksScale) -> Path:
    from saccade.tasks.benchmarks.row_files import load_pyarrow

    pyarrow, parquet = load_pyarrow()
    pictures = [(photos / f"{number}.jpg").read_bytes() for number in range(scale.pictures)]
    rows = [
        {**_row(number, scale), "image": {"bytes": pictures[number % scale.pictures], "path": None}}
        for number in range(scale.tasks)
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), file, row_group_size=1000)
    return file


def _opened(source: Path, tasks: int) -> tuple[float, float]:
    """Return seconds and MiB."""
    command = [sys.executable, "-c", _OPEN, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DataError(f"the benchmark could not open {source}: {done.stderr.strip()[-500:]}")
    count, shown, seconds, mib = json.loads(done.stdout)
    if (count, shown) != (tasks, 1):
        raise DataError(f"{source} gave {count} tasks of {tasks}, and one of {shown} pictures; its figures say nothing")
    return seconds, mib
