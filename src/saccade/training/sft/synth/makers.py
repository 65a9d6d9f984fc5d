"""Make trajectories of tasks, by an expert or a teacher that plays the dialect; and tell what a program does."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Protocol, get_args

from saccade.core.settings import settings_toml
from saccade.dialects.base import Dialect, load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan, limits_with
from saccade.episode.run_folder import MEDIA, TRAJECTORIES
from saccade.episode.shown import scaled_down
from saccade.episode.task_media import check_graders
from saccade.errors import RecordError, SettingsError
from saccade.media.store import MediaStore
from saccade.models.base import Completion, MediaReader, Model, Request
from saccade.record.codec import loads
from saccade.record.content import Code, TextPart
from saccade.record.task import Task
from saccade.record.trajectory import Sampling, Trajectory
from saccade.sandbox.base import Sandbox
from saccade.tasks.sources.folder import WorldReader
from saccade.tasks.sources.resolve import SourceDefaults, bare_name, kind_of, with_knobs
from saccade.tasks.sources.settings import SourceSettings, Turns
from saccade.tasks.sources.task_set import OpenSource, TaskPool, expanded, open_tasks
from saccade.tasks.worlds import World, WorldSample, draw_sample, load_world
from saccade.tools.toolbox import Toolbox
from saccade.training.sft.synth.prompts import DiscardedError, RecipeTexts, recipe_texts
from saccade.training.sft.synth.settings import AtomicCategory, SynthSettings

# A job is one trajectory: of a task, or of a stored run whose thoughts are rewritten.


@dataclass(frozen=True, slots=True)
class Job:
    """One trajectory to be made."""

    task_id: str
    """Of the task."""
    sample: int
    """Number among the trajectories of one task."""
    source: int = 0
    """Number of the task's source."""
    place: int = 0
    """Of the task in its source."""

    @property
    def id(self) -> str:
        return f"{self.task_id}#{self.sample}"

    @property
    def world(self) -> str:
        """Prefix of the id: of a world its id with the version."""
        return self.task_id.partition("/")[0]

    def seed(self, settings: SynthSettings) -> int:
        """Return a seed of its own for the expert, from the run's seed and the dialect."""
        digest = sha256(json.dumps([settings.seed, settings.dialect, self.id]).encode()).digest()
        return int.from_bytes(digest[:8], "little")


class Jobs:
    """All jobs of a run, and their tasks."""

    def __init__(self, settings: SynthSettings) -> None:
        """Opens the sources.

        Raises as `saccade.tasks.sources.task_set.open_tasks`, and `SettingsError` for a grader that cannot be had.
        """
        self._settings = settings
        sources = _each_once(with_knobs(expanded(settings.sources), settings.knobs))
        self.tasks: TaskPool = open_tasks(
            sources, SourceDefaults(settings.split, most=settings.n, start=settings.start)
        )
        check_graders(self.tasks.parts)

    def __len__(self) -> int:
        return sum(map(len, self._rows())) * self._settings.samples

    def __iter__(self) -> Iterator[Job]:
        """Yield from the sources in turn, so that a run that is broken off holds some of each."""
        for row in self._rows():
            for sample in range(self._settings.samples):
                for source, place in row:
                    light = self.tasks.parts[source].lights[place]
                    yield Job(light.id, sample, source, place)

    def lines(self) -> tuple[str, ...]:
        """Say for each source how many tasks are taken, and what is left out and why."""
        return self.tasks.lines()

    def drawn(self, job: Job) -> WorldSample | None:
        """Return the sample that a world draws for the job; None for a task of another source."""
        reader = self._of(job).reader
        if not isinstance(reader, WorldReader):
            return None
        return draw_sample(reader.world, reader.split, self._of(job).spots[job.place], reader.knobs)

    def make(self, job: Job, store: MediaStore) -> Task:
        """Return the task of a job, its media put into `store`. Raises as `TaskPool.make`."""
        return self._of(job).make(job.place, store)

    def _of(self, job: Job) -> OpenSource:
        return self.tasks.parts[job.source]

    def _rows(self) -> Iterator[list[tuple[int, int]]]:
        """Yield tasks as (source, place); one of each source in a row, or as their shares say, `n` in all."""
        sizes = [len(part.lights) for part in self.tasks.parts]
        if self.tasks.shares is None or len(sizes) == 1:
            for places in zip_longest(*map(range, sizes)):
                yield [(source, place) for source, place in enumerate(places) if place is not None]
            return
        turns = Turns(self.tasks.shares)
        for number in range(self._settings.n):
            source, place = turns.at(number)
            if place < sizes[source]:
                yield [(source, place)]


def worlds_of(settings: SynthSettings) -> list[World[Any]]:
    """Return the worlds among the sources."""
    names = [source.name for source in expanded(settings.sources) if kind_of(source.name) == "world"]
    return [load_world(bare_name(name)) for name in names]


def _each_once(sources: tuple[SourceSettings, ...]) -> list[SourceSettings]:
    """Return the sources, a world that is named twice (with its version and without) once."""
    kept: dict[str, SourceSettings] = {}
    for source in sources:
        world = kind_of(source.name) == "world"
        name = load_world(bare_name(source.name)).id if world else source.name
        kept.setdefault(f"{name}:{source.split}:{source.tags}:{source.prefix}", source)
    return list(kept.values())


@dataclass(frozen=True, slots=True)
class _Line:
    run: Path
    start: int


class StoredJobs:
    """One job for each trajectory of some runs; at most `n` of each run, the first ones."""

    def __init__(self, settings: SynthSettings) -> None:
        """Reads every trajectory once; kept is where it is.

        Raises `SettingsError`: a source is no run folder, was made in another dialect, or two runs hold the same
        rollout; `RecordError`: a trajectory cannot be read.
        """
        self._dialect = load_dialect(settings.dialect).id
        self._lines: dict[str, _Line] = {}
        self._jobs: list[Job] = []
        self._said: list[str] = []
        if settings.samples > 1 or settings.start:
            raise SettingsError("recipe `rewrite` takes stored trajectories as they are: leave out samples and start.")
        for number, name in enumerate(settings.sources):
            run = Path(name)
            if not (run / TRAJECTORIES).is_file():
                raise SettingsError(
                    f"recipe `rewrite` gives new thoughts to stored trajectories, and {name} is no run folder: it has "
                    f"no {TRAJECTORIES}. Name the folder of a run."
                )
            self._read(run, number, settings.n)

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def lines(self) -> tuple[str, ...]:
        """Say for each run how many trajectories are taken, and how many are not and why."""
        return tuple(self._said)

    def drawn(self, job: Job) -> WorldSample | None:
        """None: nothing is drawn by a world."""
        return None

    def make(self, job: Job, store: MediaStore) -> Task:
        """Return the task of a job; all media of its trajectory are put into `store`. Raises `MissingMediaError`."""
        trajectory = self.trajectory(job)
        media = MediaStore(self._lines[job.id].run / MEDIA)
        for part in trajectory.media():
            if part not in store:
                store.put_blob(media.get_bytes(part.sha256))
        return trajectory.task

    def trajectory(self, job: Job) -> Trajectory:
        line = self._lines[job.id]
        with (line.run / TRAJECTORIES).open("rb") as file:
            file.seek(line.start)
            return loads(file.readline(), Trajectory).model_copy(update={"id": job.id})

    def _read(self, run: Path, number: int, most: int) -> None:
        rollouts: Counter[str] = Counter()
        left: Counter[str] = Counter()
        start = taken = 0
        with (run / TRAJECTORIES).open("rb") as lines:
            for at, line in enumerate(lines, 1):
                try:
                    trajectory = loads(line, Trajectory)
                except RecordError as error:
                    raise type(error)(f"{run / TRAJECTORIES}, line {at}: {error}") from error
                why = self._refused(run, trajectory) if taken < most else "more than --n"
                if why:
                    left[why] += 1
                else:
                    job = Job(trajectory.task.id, rollouts[trajectory.task.id], number, at - 1)
                    if job.id in self._lines:
                        raise SettingsError(f"{run} and another run both hold {job.id}. Rewrite one run at a time.")
                    self._lines[job.id] = _Line(run, start)
                    self._jobs.append(job)
                    rollouts[trajectory.task.id] += 1
                    taken += 1
                start += len(line)
        out = "; ".join(f"{count} {why}" for why, count in sorted(left.items()))
        self._said.append(f"{run}: {taken} trajectories" + (f" (left out: {out})" if out else ""))

    def _refused(self, run: Path, trajectory: Trajectory) -> str:
        if trajectory.provenance.dialect != self._dialect:
            raise SettingsError(
                f"{run} holds trajectories of dialect {trajectory.provenance.dialect}, not of {self._dialect}. "
                f"Name it: --dialect {trajectory.provenance.dialect}."
            )
        return "" if trajectory.answer is not None else "without an answer"


TAG: Final = "atomic:"
"""Begins the tag of a category."""
ATOMIC_PROMPTS: Final[dict[AtomicCategory, str]] = {
    "transform": "Use code for one thing alone: to see better. Cut out the region that decides the answer, enlarge, "
    "turn or brighten it, show it, and answer from what you see then.",
    "compute": "Use code for one thing alone: to calculate. Write down as numbers what the picture shows, let Python "
    "do the measuring, algebra or adding up, print the result, and answer by it.",
    "edit": "Use code for one thing alone: to draw. Put boxes, lines, points or numbers onto the picture that make the "
    "answer visible, show the result, check it, and answer by it.",
}
_EDITS = (
    *("rectangle", "rounded_rectangle", "ellipse", "circle", "polygon", "polylines", "line", "arrowedLine", "arc"),
    *("chord", "pieslice", "point", "text", "multiline_text", "putText", "drawContours", "paste", "alpha_composite"),
    *("plot", "scatter", "bar", "annotate", "axhline", "axvline", "axline", "add_patch", "add_artist"),
    *("fill_between", "hlines", "vlines"),
)
_TRANSFORMS = (
    *("crop", "resize", "thumbnail", "rotate", "transpose", "transform", "enhance", "filter", "autocontrast"),
    *("equalize", "equalizeHist", "invert", "expand", "flip", "warpAffine", "warpPerspective", "getRectSubPix"),
    *("GaussianBlur", "cvtColor", "threshold", "Canny", "pyrUp", "rot90", "fliplr", "flipud"),
)
_COMPUTES = (
    *("sum", "len", "min", "max", "abs", "round", "sorted", "sqrt", "hypot", "mean", "median", "std", "atan2", "dot"),
    *("norm", "solve", "count"),
)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


def atomic_category(code: str) -> AtomicCategory | None:
    """Return CodeDance's category of one piece of code; None if it is of none, or no Python.

    `transform` cuts out, enlarges, turns or filters a picture; `compute` measures, counts, calculates; `edit` draws on
    a picture or plots. Of several, edit wins before transform before compute. Told by the names of what is called: a
    function of the user's own under another name is not recognised.
    """
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except (SyntaxError, ValueError, RecursionError):
        return None
    called = {_name(node.func) for node in nodes if isinstance(node, ast.Call)}
    if called.intersection(_EDITS):
        return "edit"
    if called.intersection(_TRANSFORMS) or any(_cuts_out(node) for node in nodes):
        return "transform"
    counts = any(isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC) for node in nodes)
    return "compute" if counts or called.intersection(_COMPUTES) else None


def atomic_categories(trajectory: Trajectory) -> tuple[AtomicCategory, ...]:
    """Return the categories of all code that the trajectory ran, each once, in the order of the settings."""
    categories = {atomic_category(turn.action.code) for turn in trajectory.turns if isinstance(turn.action, Code)}
    return tuple(name for name in get_args(AtomicCategory) if name in categories)


def labelled(trajectory: Trajectory, asked: AtomicCategory | None = None) -> Trajectory:
    """Return the trajectory, its task tagged with the categories of its code.

    Raises `DiscardedError`: none of them is the one that was asked for.
    """
    categories = atomic_categories(trajectory)
    if asked is not None and asked not in categories:
        raise DiscardedError("other category", f"no code of category {asked}, but {', '.join(categories) or 'none'}")
    tags = tuple(tag for tag in trajectory.task.tags if not tag.startswith(TAG))
    task = trajectory.task.model_copy(update={"tags": (*tags, *(f"{TAG}{name}" for name in categories))})
    return trajectory.model_copy(update={"task": task})


class HintedModel:
    """A model that is given a sentence more than the dialect says; it is in no record, so nobody is trained on it."""

    def __init__(self, model: Model, hint: str) -> None:
        self.name = model.name
        self._model = model
        self._hint = hint

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Return the model's reply to the request, with the hint at the end of the user's first message. Raises as
        the model does.
        """
        messages = list(request.messages)
        at = next((number for number, message in enumerate(messages) if message.role == "user"), None)
        if at is not None:
            hint = TextPart(text=f"\n\n{self._hint}")
            messages[at] = messages[at].model_copy(update={"parts": (*messages[at].parts, hint)})
        hinted = Request(
            tuple(messages), request.stop, request.sampling, request.tools, request.context_tokens, request.room
        )
        return await self._model.complete(hinted, media, on_text=on_text)

    async def close(self) -> None:
        """Do nothing: the run closes the model."""


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _cuts_out(node: ast.AST) -> bool:
    """Return whether it is `image[a:b, c:d]`."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Tuple)
        and sum(isinstance(item, ast.Slice) for item in node.slice.elts) >= 2
    )


class Maker(Protocol):
    """Makes one trajectory for one task."""

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        """Return the trajectory as it was played, not graded.

        Raises `DiscardedError`: something that must not be kept came of it; `SettingsError`: the dialect cannot hold
        the task.
        """


@dataclass(frozen=True)
class SynthResources:
    """Where episodes are played."""

    settings: SynthSettings
    dialect: Dialect
    tools: Toolbox | None
    sandbox: Sandbox
    store: MediaStore

    def plan(self, job: Job, task: Task, sampling: Sampling | None = None) -> Plan:
        return Plan(
            task,
            self.dialect,
            sampling=sampling or Sampling(),
            given_limits=limits_with(self.dialect.limits, **self.settings.limits.model_dump()),
            group=task.id if self.settings.samples > 1 else "",
            rollout=job.sample,
            settings=self._settings_text,
            shown=scaled_down(task, self.settings.media.shown_pixels, self.store, self.dialect),
        )

    @cached_property
    def texts(self) -> RecipeTexts:
        return recipe_texts(self.settings.teacher.prompt_files)

    @cached_property
    def _settings_text(self) -> str:
        return settings_toml(self.settings)

    def atomic_of(self, job: Job) -> AtomicCategory | None:
        """Return the category of code that a job asks for; its samples go through all of them in turn."""
        wanted = self.settings.teacher.atomic
        return wanted[job.sample % len(wanted)] if wanted else None

    async def play(self, plan: Plan, model: Model) -> Trajectory:
        return await run_episode(plan, model, self.sandbox, self.store, tools=self.tools)


Player = Callable[[Job, Plan, Mapping[str, str]], Model]
"""Makes the model that plays the plan of a job, given the notes of the world's sample."""
Wording = Callable[[Job, Task], Task]
"""Puts the task of a job in other words."""


@dataclass(frozen=True)
class PlayerMaker:
    """Makes trajectories by a model that is made for each task, such as an expert."""

    stage: SynthResources
    player: Player
    wording: Wording | None = None

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        """Play the task; raises what `player` raises too, such as `ExpertStopped` for a task that it cannot play."""
        plan = self.stage.plan(job, task if self.wording is None else self.wording(job, task))
        return await self.stage.play(plan, self.player(job, plan, notes))


@dataclass(frozen=True)
class TeacherMaker:
    """One model for all tasks, asked in the dialect's own prompt (PyVision-RL)."""

    stage: SynthResources
    model: Model

    async def make(self, job: Job, task: Task, notes: Mapping[str, str]) -> Trajectory:
        sampling = self.stage.settings.teacher.sampling
        seeded = sampling if sampling.seed is None else sampling.model_copy(update={"seed": sampling.seed + job.sample})
        asked = self.stage.atomic_of(job)
        model = self.model if asked is None else HintedModel(self.model, ATOMIC_PROMPTS[asked])
        played = await self.stage.play(self.stage.plan(job, task, seeded), model)
        return played if played.lost else labelled(played, asked)
