"""`python -m benchmarks eval`: what an evaluation costs besides model and sandbox, and how soon a long one resumes.

The model is this process's own: it answers after a fixed time and costs nothing, so no HTTP is in the figures but in
one, where a server in a process of its own answers after the same time. With code the bound is what model and sandbox
allow: the same calls made straight to the sandbox in the same run, by as many workers, with the model's time as a pause
before and after each. The start of the sandbox is in both.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, own_memory
from saccade.core.settings import save_settings
from saccade.dialects.base import load_dialect
from saccade.episode.flow import Plan
from saccade.errors import SandboxError
from saccade.evals.run import evaluate
from saccade.evals.settings import EvalSettings
from saccade.models.base import Completion, MediaReader, Request
from saccade.record.codec import dumps, loads, write_lines
from saccade.record.content import Action, Answer, Code
from saccade.record.task import AnswerType, Task
from saccade.record.trajectory import FinishReason, Trajectory
from saccade.sandbox.local import LocalSandbox

SECONDS = 0.05
"""Of one answer of the model."""
CODE = "print(1 + 1)"
WITH_CODE, WITHOUT = "codedance", "direct"


@dataclass(frozen=True, slots=True)
class EvalScale:
    """Sizes of a run."""

    at_once: int = 64
    samples: int = 320
    """With code, in each round."""
    rounds: int = 4
    bare_samples: int = 4000
    stored: int = 10_000
    """Samples of the run that is continued."""


FULL_EVAL = EvalScale()
QUICK_EVAL = EvalScale(samples=64, rounds=2, bare_samples=640, stored=2000)


def measure_eval(scale: EvalScale, on_progress: Callable[[str], None] = lambda what: None) -> list[Figure]:
    """Measure every figure. Raises `SandboxError` if a sample does not do its work."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        on_progress("samples without code")
        _play(root / "warm", WITHOUT, scale.at_once, scale.at_once)
        bare = _play(root / "bare", WITHOUT, scale.bare_samples, scale.at_once)
        before = own_memory()
        _play(root / "again", WITHOUT, scale.bare_samples, scale.at_once)
        after = own_memory()
        on_progress("samples with code, and calls straight to the sandbox")
        code, calls = _in_turns(root, scale)
        on_progress("samples with code over HTTP")
        served = _served(root, scale)
        on_progress("a long run that is continued")
        again = _continued(root / "code0", root / "long", scale)
    ideal = scale.at_once / SECONDS
    at_once = f"{scale.at_once} at once"
    return [
        Figure(
            f"samples with code, {at_once}",
            code,
            "per second",
            "pause, call, pause straight to the sandbox",
            calls,
            "≥ 90 % of it",
            code >= 0.9 * calls,
        ),
        Figure("the same calls straight to the sandbox", calls, "per second", "the model alone", ideal / 2),
        Figure("samples with code, the model behind HTTP", served, "per second", "the model in this process", code),
        Figure(f"samples without code, {at_once}", bare, "per second", "the model alone", ideal),
        Figure(
            f"growth over {scale.bare_samples} samples more",
            (after - before) / 2**20,
            "MiB",
            "all memory of this process",
            after / 2**20,
            "flat: ≤ 2 % of it",
            after - before <= 0.02 * after,
        ),
        Figure(f"a run of {scale.stored} samples, until it resumes", again, "s", target="≤ 2", met=again <= 2),
    ]


class _Fixed:
    """Answers after a fixed time: with code first where the dialect has it."""

    name = "fixed"

    def __init__(self, plan: Plan) -> None:
        self._write = plan.dialect.write
        self._actions: list[Action] = [Answer(text="2")]
        if plan.dialect.id.startswith(WITH_CODE):
            self._actions.append(Code(code=CODE))

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        await asyncio.sleep(SECONDS)
        # Said at once and uncounted, since what a model costs is no cost of the evaluation.
        return Completion(self._write(self._actions.pop()), FinishReason.STOP, model=self.name)

    async def close(self) -> None:
        """Holds nothing that needs closing."""


def _tasks(root: Path, count: int) -> None:
    root.mkdir(parents=True)
    tasks = (
        Task(id=f"t{number}", question="1 + 1?", answer="2", answer_type=AnswerType.NUMBER, source="sums")
        for number in range(count)
    )
    write_lines(root / "tasks.jsonl", tasks)


def _settings(root: Path, dialect: str, model: str = "fixed") -> EvalSettings:
    return EvalSettings(model=model, dialect=dialect, sources=(str(root),))


def _play(root: Path, dialect: str, count: int, at_once: int, model: str = "") -> float:
    """Return a run's samples per second, from its first moment to its summary; without a `model` with the one above."""
    _tasks(root, count)
    start = time.perf_counter()
    settings = _settings(root, dialect, model or "fixed")
    made = asyncio.run(evaluate(settings, root / "run", workers=at_once, player=None if model else _Fixed))
    seconds = time.perf_counter() - start
    if made.summary.total.avg != 1 or made.summary.total.tasks != count:
        raise SandboxError(f"the samples of a benchmark did not do their work: {made.summary}")
    return count / seconds


def _in_turns(root: Path, scale: EvalScale) -> tuple[float, float]:
    """Return samples with code and calls straight to the sandbox, per second; in turns: other work disturbs both."""
    code = calls = 0.0
    for number in range(scale.rounds):
        code += scale.samples / _play(root / f"code{number}", WITH_CODE, scale.samples, scale.at_once)
        calls += scale.samples / asyncio.run(straight(scale.samples, scale.at_once))
    return scale.rounds * scale.samples / code, scale.rounds * scale.samples / calls


def _served(root: Path, scale: EvalScale) -> float:
    """Return samples with code per second, with a model behind a server."""
    write = load_dialect(WITH_CODE).write
    texts = json.dumps([write(Code(code=CODE)), write(Answer(text="2"))])
    command = [sys.executable, "-m", "benchmarks.servers", "fixed", str(SECONDS), texts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            model = f"vllm:fixed@http://127.0.0.1:{int(server.stdout.readline())}/v1"
            return _play(root / "served", WITH_CODE, scale.samples, scale.at_once, model)
        finally:
            server.kill()


async def straight(samples: int, at_once: int) -> float:
    """Return sessions with one call per second; the model's time passes before the call and after it."""
    dialect = load_dialect(WITH_CODE)
    left = iter(range(samples))
    start = time.perf_counter()
    async with LocalSandbox(limits=dialect.sandbox) as box:

        async def worker() -> None:
            for _ in left:
                await asyncio.sleep(SECONDS)
                session = await box.open(options=dialect.session)
                if (await session.run(CODE)).stdout != "2\n":
                    raise SandboxError("a benchmark cell did not print 2")
                await asyncio.sleep(SECONDS)
                await session.close()

        await asyncio.gather(*(worker() for _ in range(at_once)))
        return samples / (time.perf_counter() - start)


def _continued(small: Path, root: Path, scale: EvalScale) -> float:
    """Return the seconds until a run that has all its samples but one begins with that one."""
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
