"""Runs an evaluation: plays, grades and keeps every sample that the run folder lacks.

A trajectory is on the disk when it is counted. A run that is killed or interrupted continues where it stood when it is
started again with the same settings (`n` and `k` may grow), and ends with the same results: a sample depends on the
settings, its task and its number only, as far as the model does. Samples are stored in the order in which they end;
results and summary are in the order of the tasks.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, Final

from saccade.core.disk import one_writer, write_atomic
from saccade.core.registry import Registry
from saccade.core.settings import save_settings, settings_toml
from saccade.dialects.base import DIALECTS, Dialect
from saccade.episode.ask import check_speaks, suited
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan, as_done, limits_with
from saccade.episode.prepared import prepared
from saccade.episode.run_folder import SETTINGS, RunFolder, came_to_nothing, check_continued, continued, saved_settings
from saccade.episode.task_media import Unshown, check_graders, unshown
from saccade.episode.workbench import missing_words
from saccade.errors import SettingsError
from saccade.evals.benchmarks import BROKEN_ROW, FOLDER, Item, ItemSource, as_published, of_shard, open_card
from saccade.evals.grades import (
    BROKEN_TASK,
    FAILURES,
    OUTAGES,
    EvalProgress,
    ProgressCallback,
    SampleFailure,
    add_failure,
    graded,
    mend_failures,
    open_failures,
)
from saccade.evals.judged import VERDICTS, grade_again, judge_run, keep_verdicts, verdicts_of
from saccade.evals.metrics import question_of
from saccade.evals.requests import keeper
from saccade.evals.rows import EvalRow, read_rows
from saccade.evals.settings import EvalSettings
from saccade.evals.summary import Summary, summarise, write_summary
from saccade.grading.registry import GRADERS, load_grader, rehearse
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.models.batches import HALF, BatchTimes
from saccade.models.exchanges import heard
from saccade.models.hosted import SAMPLE, HostedModel
from saccade.models.registry import PROVIDERS, check_sampling, load_model, provider_of, unknown_sampling
from saccade.record.content import ImagePart, Message, TextPart, clean_text
from saccade.record.trajectory import StopReason, Trajectory
from saccade.rewards.judges.answer import AnswerJudge
from saccade.rewards.judges.client import JudgeClient
from saccade.sandbox.base import Sandbox
from saccade.tasks.media import FrameSettings
from saccade.tasks.sources.resolve import SourceDefaults, kind_of, with_knobs
from saccade.tasks.sources.settings import BROKEN, SourceSettings, Turns, check_weights, found_again, most_in_shares
from saccade.tasks.sources.task_set import OpenSource, drawn, expanded, open_source
from saccade.tools.toolbox import Toolbox

_log = logging.getLogger(__name__)
_SEEDS = 2**31
"""Backends take seeds of 32 bits with a sign."""


@dataclass(frozen=True, slots=True)
class EvalSample:
    """One episode to be played."""

    item: Item
    rollout: int
    """Number among the samples of the task, from 0."""

    @property
    def id(self) -> str:
        return f"{self.item.id}#{self.rollout}"

    def seed(self, base: int) -> int:
        """Return a seed that depends only on `base`, the task's id and the rollout."""
        digest = sha256(f"{base}:{self.id}".encode()).digest()
        return int.from_bytes(digest[:8], "little") % _SEEDS


def samples(items: Iterable[Item], k: int) -> Iterator[EvalSample]:
    """Yield all samples: every task once, then every task a second time, and so on."""
    listed = tuple(items)
    for rollout in range(k):
        for item in listed:
            yield EvalSample(item, rollout)


@dataclass(frozen=True)
class OpenedSource:
    """Any source but a benchmark that is named only by its card, which `benchmarks.py` opens.

    A task is made, and its media stored, when it is played; `n` of its tasks are, all if None. Rows that give no task
    are kept among the run's failures.
    """

    opened: OpenSource
    n: int | None = None

    @property
    def note(self) -> str:
        opened = self.opened
        if opened.endless or not (opened.problems or opened.other_tags or self._missing):
            return ""
        short = f"; its share would be {self.n}" if self._missing else ""
        return f"{opened.line()}{short}"

    @property
    def _missing(self) -> bool:
        """Whether there are fewer tasks than its share asks for."""
        return self.opened.settings.weight is not None and (self.n or 0) > len(self.opened.lights)

    def unshown(self, dialect: Dialect, frames: FrameSettings) -> Sequence[Unshown]:
        return tuple(unshown(self.opened, dialect, frames))

    async def items(self, settings: EvalSettings, out: Path, store: MediaStore) -> Sequence[Item]:
        if settings.shards[0] == 0:
            self._keep_problems(out)
        today = {light.id: place for place, light in enumerate(self.opened.lights)}
        if self.opened.endless:
            all_of_it = [self._item(place, name) for name, place in today.items()]
            return of_shard(all_of_it, settings, frozenset(range(len(today))[: self.n]))
        if len(today) < len(self.opened.lights):
            twice = next(name for name, times in Counter(light.id for light in self.opened.lights).items() if times > 1)
            raise SettingsError(f"two tasks have the id {twice} ({self.opened.settings}). Ids must differ.")
        names = self._names(out)
        items = [None if now is None else self._item(today[now], name) for name, now in names.items()]
        chosen = drawn(list(names), self.n, settings.seed)
        return [item for item in of_shard(items, settings, chosen) if item is not None]

    def _names(self, out: Path) -> dict[str, str | None]:
        """Return the id of each task in the run in `out`, and today's; None for one that was taken out. Raises
        `SettingsError` if a task says something else than when the run began.
        """
        source, lights = self.opened.settings, self.opened.lights
        file = out / FOLDER / f"{sha256(str(source).encode()).hexdigest()[:12]}-ids.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        before: dict[str, str] = dict(map(json.loads, lines))
        contents = {light.id: light.content for light in lights}
        found = found_again(list(before.items()), contents.items())
        if other := [name for name in found.foreign if name in found.gone]:
            raise SettingsError(
                f"{source}: {len(other):,} tasks say something else than when the run in {out} began, {other[0]} "
                "first. Put the rows back, or use another folder."
            )
        if found.gone:
            _log.warning(
                "%s: %s tasks were taken out since the run in %s began: %s. What was played of them stays in it.",
                source,
                f"{len(found.gone):,}",
                out,
                found.said(),
            )
        names = {name: found.names.get(name) for name in before}
        for name in found.foreign:  # a number may be that of another row of the run
            free = (f"{name}.{number}" for number in count(1))
            names[name if name not in before else next(new for new in free if new not in names)] = name
        if len(names) > len(before):
            file.parent.mkdir(parents=True, exist_ok=True)
            kept = ((name, contents[now] if now else before[name]) for name, now in names.items())
            write_atomic(file, "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in kept))
        return names

    def _item(self, place: int, name: str) -> Item:
        count = self.opened.lights[place].rotations
        return Item(name, lambda store: self.opened.make(place, store).model_copy(update={"id": name}), rotations=count)

    def _keep_problems(self, out: Path) -> None:
        known = open_failures(out, ())
        for problem in self.opened.problems:
            name = f"{self.opened.label}/{problem.file}:{problem.row}"[:200]
            if name not in known:
                add_failure(out, SampleFailure(id=name, kind=BROKEN_ROW, detail=clean_text(str(problem))))


def open_sources(settings: EvalSettings) -> Mapping[str, ItemSource]:
    """Open the sources of a run, by name.

    Raises:
        SettingsError: a name means nothing, a world is asked for all its tasks, only some sources have a weight, a
            setting of worlds would change nothing, or tasks name a grader that cannot be had.
        RegistryError: a card names a grader that does not exist.
        DataError: the data of a benchmark are not on this disk; says how to get them.
    """
    sources = with_knobs(expanded(settings.sources), settings.knobs)
    if settings.split != "test" and not any(kind_of(source.name) == "world" for source in sources):
        raise SettingsError(f"split {settings.split} is one of generated worlds, and no source is one. Leave it out.")
    if check_weights(sources):
        return _shared(sources, settings)
    opened: dict[str, ItemSource] = {}
    for source in sources:
        if kind_of(source.name) == "card" and source == SourceSettings(name=source.name, split=source.split):
            opened[str(source)] = open_card(str(source), settings)
        else:
            opened[str(source)] = OpenedSource(_opened(source, settings, settings.n), settings.n)
    return opened


def _opened(source: SourceSettings, settings: EvalSettings, most: int | None) -> OpenSource:
    """Open a world with `most` tasks; anything else whole, for the run's seed to choose from."""
    data = Path(settings.data) if settings.data else None
    most = most if kind_of(source.name) == "world" else None
    opened = open_source(source, SourceDefaults(settings.split, data, most, world_tasks=None))
    if not settings.grader:
        check_graders([opened])
    return opened


def _shared(sources: Sequence[SourceSettings], settings: EvalSettings) -> dict[str, ItemSource]:
    """Open sources with weights: `n` tasks in all, or else as many as keep the shares."""
    turns = Turns([source.weight or 0.0 for source in sources])
    if settings.n is not None:
        counts = turns.counts(settings.n)
        opened = [_opened(source, settings, max(1, n)) for source, n in zip(sources, counts, strict=True)]
    else:
        opened = [_opened(source, settings, None) for source in sources]
        sizes = [len(one.lights) for one in opened]
        counts = turns.counts(most_in_shares(turns.shares, sizes))
    return {str(source): OpenedSource(one, n) for source, one, n in zip(sources, opened, counts, strict=True)}


def check_shown(sources: Mapping[str, ItemSource], settings: EvalSettings, dialect: Dialect) -> tuple[str, ...]:
    """Return notices about tasks that the dialect cannot show, where others of their source can be played. Raises
    `SettingsError` if no task of a source can be.
    """
    notices = []
    for source in sources.values():
        for problem in source.unshown(dialect, settings.frames):
            if problem.all:
                raise SettingsError(str(problem))
            notices.append(f"{problem} As it is, they come to nothing; the others are played.")
    return tuple(notices)


async def chosen(
    sources: Mapping[str, ItemSource], settings: EvalSettings, out: Path, store: MediaStore
) -> tuple[Item, ...]:
    """Return the tasks of this shard: of each source its part.

    Raises:
        SettingsError: two tasks share an id.
        RecordError, DataError: the tasks of a source cannot be read.
    """
    items: dict[str, Item] = {}
    for name, source in sources.items():
        of_source = await source.items(settings, out, store)
        for item in (one for given in of_source for one in (given.turned() if settings.circular else (given,))):
            if item.id in items:
                raise SettingsError(f"two tasks have the id {item.id} ({name}). Ids must differ; name a source once.")
            items[item.id] = item
    return tuple(items.values())


def circular_note(items: Sequence[Item], settings: EvalSettings) -> str:
    """Return what asking every rotation of the choices costs. Raises `SettingsError` if no task has choices that can be
    rotated.
    """
    questions = len({question_of(item.id) for item in items})
    if questions == len(items) and settings.shard == "1/1":
        raise SettingsError(
            "circular asks every rotation of a task's choices, and no task has choices that can be rotated (choices "
            "of generated worlds, bare letters and those that speak of others by place cannot). Leave circular out."
        )
    return (
        f"circular: {questions:,} questions are {len(items):,} tasks, one for each rotation of their choices, so this "
        f"run makes {len(items) * settings.k:,} samples where it would make {questions * settings.k:,}."
    )


_REGISTRIES: Mapping[str, Registry[Any]] = {"dialect": DIALECTS, "grader": GRADERS, "judge": PROVIDERS}
"""Settings that name a part, which may be a user's code."""
ModelForPlan = Callable[[Plan], Model]
"""Makes the model of one episode: a baseline that looks at its plan, in place of one model for all."""


@dataclass(frozen=True)
class Evaluated:
    """The outcome of a run."""

    progress: EvalProgress
    summary: Summary


async def evaluate(
    settings: EvalSettings,
    out: Path,
    *,
    workers: int = 16,
    player: ModelForPlan | None = None,
    batch: BatchTimes | None = None,
    watch: ProgressCallback = lambda progress: None,
) -> Evaluated:
    """Play what is missing in the run folder `out`, `workers` at once, have it judged, and sum up what it holds.

    With a `player` the name of the model in the settings is a label only; without, a provider may have one. With
    `batch` requests go by the provider's batch API, those of `workers` samples in each batch.

    Raises:
        SettingsError: a source is wrong, the folder was made with other settings, or the dialect takes no such tools
            or can show no task of a source.
        RegistryError: a dialect, tool, grader or model is unknown.
        ModelError, SandboxError: outages that do not end.
    """
    settings, _ = continuing(settings, out)
    dialect, _ = settings.spoken()
    player = player or provider_of(settings.model).for_plan
    if player is None:
        check_speaks(settings.model, dialect, settings.frames)
    check_sampling(settings.model, settings.sampling)
    if settings.grader:
        load_grader(settings.grader)
    sources = open_sources(settings)
    unshown = check_shown(sources, settings, dialect)
    await _check_models(settings, out, asked=player is None)
    with one_writer(out):
        return await _played(settings, out, sources, unshown, workers, player, batch, watch)


async def _played(
    settings: EvalSettings,
    out: Path,
    sources: Mapping[str, ItemSource],
    unshown: tuple[str, ...],
    workers: int,
    player: ModelForPlan | None,
    batch: BatchTimes | None,
    watch: ProgressCallback,
) -> Evaluated:
    folder = await asyncio.to_thread(_opened_run, settings, out)
    store = folder.store.limited(settings.media.limits)
    mend_failures(out)
    items = await chosen(sources, settings, out, store)
    listed = list(samples(items, settings.k))
    missing = [sample for sample in listed if sample.id not in folder]
    progress = EvalProgress(
        len(listed),
        skipped=len(listed) - len(missing),
        most_outages=max(OUTAGES, workers),
        tasks=len(items),
        most_broken=settings.most_broken,
    )
    if settings.circular:
        progress.notices.append(circular_note(items, settings))
    progress.notices += [*(source.note for source in sources.values() if source.note), *unshown]
    watch(progress)
    if missing:
        spec = settings.grader or missing[0].item.grader
        with suppress(*BROKEN):  # a task that cannot be made is counted when it is played
            await asyncio.to_thread(lambda: rehearse(spec, missing[0].item.make(store)))
        async with _stage(settings, out, store, player, batch) as stage:
            if batch is not None:
                few = [await asyncio.to_thread(stage.plan, sample) for sample in missing[:LOOKED_AT]]
                progress.notices.append(price_line(stage.player(few[0]), few, len(missing)))
                watch(progress)
            async for outcomes in as_done(missing, stage.play, workers):
                # In a thread: other samples continue while the disk writes.
                await asyncio.to_thread(_keep, folder, outcomes)
                for outcome in outcomes:
                    progress.count(outcome)
                watch(progress)
        progress.check_frames(settings.frames.given)
        watch(progress)
    if settings.judge:
        await judge_run(out, settings, progress, workers=workers, watch=watch)
    return Evaluated(progress, sum_up(out, settings))


async def _check_models(settings: EvalSettings, out: Path, *, asked: bool) -> None:
    """Refuse models that cannot be made before the run folder holds their names."""
    before, new = _before(settings, out), not (out / SETTINGS).exists()
    if asked and new:
        await load_model(settings.model).close()
    if settings.judge and (new or settings.judge != before.judge or settings.judge_rules != before.judge_rules):
        rules = settings.judge_rules.with_workers(1)
        await AnswerJudge(JudgeClient(load_model(settings.judge), rules), rules).model.close()


def _keep(folder: RunFolder, outcomes: Sequence[Trajectory | SampleFailure]) -> None:
    if trajectories := [outcome for outcome in outcomes if isinstance(outcome, Trajectory)]:
        folder.append(*trajectories)
    for outcome in outcomes:
        if isinstance(outcome, SampleFailure):
            add_failure(folder.root, outcome)


def sum_up(out: Path, settings: EvalSettings) -> Summary:
    """Write results and summary of the run folder `out` from what it holds."""
    rows, summary = figures_of(out, settings)
    write_summary(out, rows, summary)
    return summary


def figures_of(out: Path, settings: EvalSettings) -> tuple[list[EvalRow], Summary]:
    """Read the samples of the run folder `out`, and sum them up. Raises as `read_rows`."""
    rows = read_rows(out)
    failures = open_failures(out, {row.id for row in rows})
    broken = sum(failure.kind == BROKEN_ROW for failure in failures.values())
    missing = len(failures) - broken
    return rows, summarise(rows, k=settings.k, missing=missing, broken_rows=broken)


@dataclass(frozen=True)
class EvalResources:
    """Everything that samples are played with."""

    settings: EvalSettings
    dialect: Dialect
    tools: Toolbox | None
    sandbox: Sandbox
    root: Path
    """The run folder."""
    store: MediaStore
    player: ModelForPlan
    settings_text: str
    """The settings as text, for the record."""

    async def play(self, sample: EvalSample) -> Trajectory | SampleFailure:
        """Play and grade one sample; an error of this sample only becomes a `SampleFailure`."""
        try:
            SAMPLE.set(sample.id)
            plan = await asyncio.to_thread(self.plan, sample)
            kept = keeper(self.root, sample.id, self.store) if self.settings.keep_requests else None
            with heard(kept):
                played = await run_episode(plan, self.player(plan), self.sandbox, self.store, tools=self.tools)
        except BROKEN as error:
            return SampleFailure(id=sample.id, kind=BROKEN_TASK, detail=clean_text(str(error)))
        except SettingsError as error:
            return SampleFailure(id=sample.id, kind=type(error).__name__, detail=clean_text(str(error)))
        if played.lost or played.stop is StopReason.CANCELLED:
            return SampleFailure(id=sample.id, kind=str(played.stop), detail=played.stop_detail)
        return await asyncio.to_thread(graded, played, self.settings.grader or sample.item.grader)

    def plan(self, sample: EvalSample) -> Plan:
        """Make the sample ready to be played."""
        settings = self.settings
        sampling = settings.sampling
        if settings.seeded:
            base = settings.seed if sampling.seed is None else sampling.seed
            sampling = sampling.model_copy(update={"seed": sample.seed(base)})
        ready = prepared(sample.item.make(self.store), self.dialect, settings, self.store)
        return Plan(
            ready.task,
            self.dialect,
            sampling=sampling,
            given_limits=limits_with(self.dialect.limits, **settings.limits.model_dump()),
            group=sample.item.id,
            rollout=sample.rollout,
            settings=self.settings_text,
            shown=ready.shown,
        )


@asynccontextmanager
async def _stage(
    settings: EvalSettings, out: Path, store: MediaStore, player: ModelForPlan | None, batch: BatchTimes | None
) -> AsyncIterator[EvalResources]:
    dialect, tools = settings.spoken()
    async with AsyncExitStack() as stack:
        if player is None:
            model = load_model(settings.model, settings.retry)
            stack.push_async_callback(model.close)
            if batch is not None:
                gather(model, settings, dialect, out, batch)
            player = _always(model)
        elif batch is not None:
            raise SettingsError(f"{settings.model} sends no requests. Leave --batch out.")
        sandbox = await stack.enter_async_context(settings.provider(dialect))
        yield EvalResources(settings, dialect, tools, sandbox, out, store, player, settings_toml(settings))


def _always(model: Model) -> ModelForPlan:
    return lambda plan: model


def continuing(settings: EvalSettings, out: Path) -> tuple[EvalSettings, tuple[str, ...]]:
    """Return the settings with which `settings` play in `out`, which may hold a run, and notices about them.

    Those of a paper are applied, see `saccade.evals.benchmarks`.

    Raises:
        SettingsError: the settings in `out` cannot be read, or the dialect takes no such tools or prompt.
        RegistryError: there is no such dialect or tool, or the run that is there names code that this command does not.
    """
    applied = as_published(settings)
    settings = applied.settings
    before = _before(settings, out)
    now, notices = suited(settings.continuing(before))
    now.check_headline()
    notes = [*applied.says, *notices]
    if now.seeded and "seed" in unknown_sampling(now.model):
        now = now.model_copy(update={"seeded": False})
        notes.append(f"{now.asked} knows no seed: samples are asked for without one.")
    twice = [name for name, count in Counter(now.sources).items() if count > 1]
    notes += [f"{name} is named more than once, and is played once." for name in twice]
    for name in ("dialect", "grader", "judge", "headline"):
        if (kept := getattr(now, name)) == getattr(before, name) != getattr(settings, name):
            if name in _REGISTRIES:
                _REGISTRIES[name].check_recorded(kept)
            notes.append(f"{out} has the {name} {kept}, and it is used for new samples too.")
    if now.grader != before.grader:
        was = before.grader or "each source's own grader"
        notes.append(f"{out} was graded by {was} and is graded anew by {now.grader}; see {VERDICTS}/ for before.")
    if missing := missing_words(now.spoken()[1]):
        notes.append(missing)
    return now, tuple(notes)


def _before(settings: EvalSettings, out: Path) -> EvalSettings:
    saved = out / SETTINGS
    return saved_settings(EvalSettings, out) if saved.exists() and not came_to_nothing(out) else settings


def _opened_run(settings: EvalSettings, out: Path) -> RunFolder:
    before = _before(settings, out)
    if came_to_nothing(out) and (out / SETTINGS).read_text(encoding="utf-8") != settings_toml(settings):
        (out / FAILURES).unlink(missing_ok=True)  # they are of other samples
    as_graded = settings.model_copy(update={"grader": before.grader})
    check_continued(out, as_graded, may_differ=settings.may_differ(before))
    if not settings.continues(before):
        raise SettingsError(
            f"{out} was made with n = {before.n or 'all'} and k = {before.k}; both may grow and not shrink. "
            "Use the same or larger ones, or another folder."
        )
    folder = continued(out, as_graded, may_differ=settings.may_differ(before))
    if settings.grader != before.grader:
        if folder.ids:
            keep_verdicts(out, verdicts_of(out, before))
            grade_again(out, settings, before)
        save_settings(settings, out / SETTINGS)
    return folder


BATCHES: Final = "batches"
LOOKED_AT: Final = 3
"""Samples that an estimate looks at."""
_CHARACTERS, _PIXELS, _MOST_MEDIA = 4, 784, 4096
"""Characters and pixels for a token, and most tokens for a picture or a video."""
_TURNS, _REPLY, _SHOWN = 3, 400, 300
"""Turns of an episode at most, tokens that are written in one, and tokens of what comes back."""


def gather(model: Model, settings: EvalSettings, dialect: Dialect, out: Path, times: BatchTimes) -> None:
    """Send from now on the requests of `model` in batches, which are kept in the run folder `out`. Raises
    `SettingsError` if it has no batch API, or a setting cannot be met by one.
    """
    unmet = {
        "limits.wall_seconds": settings.limits.wall_seconds is not None,
        "sampling.extra_headers": settings.sampling.extra_headers is not None,
        "the dialect hosted": dialect.provider_runs,
    }
    if names := " and ".join(name for name, is_set in unmet.items() if is_set):
        raise SettingsError(f"a batch waits for hours and holds plain requests: --batch cannot meet {names}.")
    if not (isinstance(model, HostedModel) and model.gather(out / BATCHES, times)):
        raise SettingsError(
            f"{settings.model} has no batch API; openai, responses, anthropic and gemini have one. Leave --batch out."
        )


def price_line(model: Model, plans: Sequence[Plan], samples: int) -> str:
    """Say what `samples` such samples cost by single requests and by batches, as far as it can be known before."""
    if not isinstance(model, HostedModel) or model.price is None or not plans:
        return f"The price of {model.name} is not known; by batches it is half."
    read = written = 0.0
    for plan in plans:
        turns = min(plan.limits.turns or _TURNS, _TURNS)
        reply = min(plan.sampling.max_tokens or _REPLY, _REPLY)
        prompt = sum(map(_tokens, plan.opening.messages))
        read += sum(prompt + turn * (reply + _SHOWN) for turn in range(turns)) / len(plans)
        written += turns * reply / len(plans)
    price = model.price
    dollars = samples * (read * price.input + written * price.output) / 1_000_000
    return (
        f"{samples} samples cost about {dollars:.2f} dollars by single requests, and {dollars * HALF:.2f} by batches, "
        f"for about {read:,.0f} tokens read and {written:,.0f} written in each; providers count otherwise."
    )


def _tokens(message: Message) -> int:
    tokens = 0
    for part in message.parts:
        if isinstance(part, TextPart):
            tokens += len(part.text) // _CHARACTERS
        elif isinstance(part, ImagePart):
            tokens += min(part.width * part.height // _PIXELS, _MOST_MEDIA)
        else:
            tokens += _MOST_MEDIA
    return tokens
