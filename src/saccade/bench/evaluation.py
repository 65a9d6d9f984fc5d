"""`saccade bench eval`: what an evaluation costs beside its model and its sandbox, and how soon a long one goes on.

The model is this process's own: it answers after a fixed time and costs nothing, so no HTTP is in the figures. With
code the bound is the slower of model and sandbox; the sandbox's own rate is measured in the same run, by the same calls
made straight to it. The start of the sandbox is in both.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from saccade.bench.loop import LoopFigure
from saccade.bench.machine import pss_bytes
from saccade.dialects.registry import load_dialect
from saccade.episode.plan import Plan
from saccade.errors import SandboxError
from saccade.evals.run import evaluate
from saccade.evals.settings import EvalSettings
from saccade.models.base import Completion, MediaReader, Request
from saccade.models.scripted import speak
from saccade.record.action import Answer, Code
from saccade.record.codec import dumps, loads, write_lines
from saccade.record.settings import save_settings
from saccade.record.task import AnswerType, Task
from saccade.record.trajectory import Trajectory
from saccade.sandbox.local import LocalSandbox

SECONDS = 0.05
"""Of one answer of the model."""
CODE = "print(1 + 1)"
WITH_CODE, WITHOUT = "codedance", "direct"


@dataclass(frozen=True, slots=True)
class EvalScale:
    """Sizes of a run."""

    at_once: int = 64
    samples: int = 640
    bare_samples: int = 4000
    stored: int = 10_000
    """Samples of the run that is continued."""


FULL_EVAL = EvalScale()
QUICK_EVAL = EvalScale(samples=128, bare_samples=640, stored=2000)


def measure_eval(scale: EvalScale, told: Callable[[str], None] = lambda what: None) -> list[LoopFigure]:
    """Every figure. Raises `SandboxError` if a sample does not do its work."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        told("samples without code")
        _play(root / "warm", WITHOUT, scale.at_once, scale.at_once)
        bare = _play(root / "bare", WITHOUT, scale.bare_samples, scale.at_once)
        before = _memory()
        _play(root / "again", WITHOUT, scale.bare_samples, scale.at_once)
        after = _memory()
        told("samples with code")
        code = _play(root / "code", WITH_CODE, scale.samples, scale.at_once)
        told("calls straight to the sandbox")
        straight = asyncio.run(_straight(scale))
        told("a long run that is continued")
        again = _continued(root / "code", root / "long", scale)
    bound = min(straight, scale.at_once / (2 * SECONDS))
    ideal = scale.at_once / SECONDS
    at_once = f"{scale.at_once} at once"
    return [
        LoopFigure(
            f"samples with code, {at_once}",
            code,
            "per second",
            "the slower of model and sandbox",
            bound,
            "≥ 90 % of it",
            code >= 0.9 * bound,
        ),
        LoopFigure("sessions with one call, straight to the sandbox", straight, "per second"),
        LoopFigure(f"samples without code, {at_once}", bare, "per second", "the model alone", ideal),
        LoopFigure(
            f"growth over {scale.bare_samples} samples more",
            (after - before) / 2**20,
            "MiB",
            "all memory of this process",
            after / 2**20,
            "flat: ≤ 5 % of it",
            after - before <= 0.05 * after,
        ),
        LoopFigure(f"a run of {scale.stored} samples, until it goes on", again, "s", target="≤ 2", met=again <= 2),
    ]


class _Fixed:
    """Answers after a fixed time: with code first where the dialect has it."""

    name = "fixed"

    def __init__(self, plan: Plan) -> None:
        self._write = plan.dialect.write
        self._texts = [CODE] if plan.dialect.id.startswith(WITH_CODE) else []

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        await asyncio.sleep(SECONDS)
        text = self._write(Code(code=self._texts.pop())) if self._texts else self._write(Answer(text="2"))
        return speak(text, request, self.name)

    async def close(self) -> None:
        """Nothing to give back."""


def _tasks(root: Path, count: int) -> None:
    root.mkdir(parents=True)
    tasks = (
        Task(id=f"t{number}", question="1 + 1?", answer="2", answer_type=AnswerType.NUMBER, source="sums")
        for number in range(count)
    )
    write_lines(root / "tasks.jsonl", tasks)


def _settings(root: Path, dialect: str) -> EvalSettings:
    return EvalSettings(model="fixed", dialect=dialect, sources=(str(root),))


def _play(root: Path, dialect: str, count: int, at_once: int) -> float:
    """Samples per second of a run, from its first moment to its summary."""
    _tasks(root, count)
    start = time.perf_counter()
    made = asyncio.run(evaluate(_settings(root, dialect), root / "run", workers=at_once, player=_Fixed))
    seconds = time.perf_counter() - start
    if made.summary.total.avg != 1 or made.summary.total.tasks != count:
        raise SandboxError(f"the samples of a benchmark did not do their work: {made.summary}")
    return count / seconds


async def _straight(scale: EvalScale) -> float:
    """Sessions with one call per second."""
    dialect = load_dialect(WITH_CODE)
    left = iter(range(scale.samples))
    start = time.perf_counter()
    async with LocalSandbox(limits=dialect.sandbox) as box:

        async def worker() -> None:
            for _ in left:
                session = await box.open(options=dialect.session)
                if (await session.run(CODE)).stdout != "2\n":
                    raise SandboxError("a benchmark cell did not print 2")
                await session.close()

        await asyncio.gather(*(worker() for _ in range(scale.at_once)))
        return scale.samples / (time.perf_counter() - start)


def _continued(small: Path, root: Path, scale: EvalScale) -> float:
    """Seconds until a run that has all its samples but one begins with that one."""
    _tasks(root, scale.stored)
    settings = _settings(root, WITH_CODE)
    with (small / "run" / "trajectories.jsonl").open("rb") as file:
        one = loads(next(iter(file)), Trajectory)
    (root / "run").mkdir()
    with (root / "run" / "trajectories.jsonl").open("wb") as lines:
        for number in range(scale.stored - 1):
            task = one.task.model_copy(update={"id": f"t{number}"})
            copy = one.model_copy(update={"id": f"t{number}#0", "task": task})
            lines.write(dumps(copy).encode() + b"\n")
    save_settings(settings, root / "run" / "settings.toml")
    begun: list[float] = []

    def player(plan: Plan) -> _Fixed:
        begun.append(time.perf_counter())
        return _Fixed(plan)

    start = time.perf_counter()
    asyncio.run(evaluate(settings, root / "run", player=player))
    (first,) = begun
    return first - start


def _memory() -> float:
    gc.collect()
    return float(pss_bytes({os.getpid()}))
