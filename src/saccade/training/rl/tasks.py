"""The tasks of a run in their order, epoch after epoch, each shuffled; and checks of a run before its first step.

Sources with weights have an epoch each, and take turns so that every source has its share from the first step on.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from saccade.core import sync
from saccade.core.disk import write_atomic
from saccade.dialects.base import Dialect, load_dialect
from saccade.episode.task_media import check_graders, check_media
from saccade.errors import DataError, SaccadeError, SettingsError, TrainingError
from saccade.grading.registry import GRADERS, rehearse
from saccade.media.store import MediaStore
from saccade.record.content import Answer
from saccade.record.task import Task
from saccade.record.trajectory import CORRECT, Score, StopReason, Trajectory, Turn
from saccade.rewards.judges.model import fines_form, unjudged
from saccade.rewards.reward import REWARDS, ByTag, RewardPreset, SearchesTasks, paid
from saccade.tasks.sources.folder import WorldReader
from saccade.tasks.sources.resolve import SourceDefaults, open_reader
from saccade.tasks.sources.settings import BROKEN, BrokenTasks, SourceSettings, Turns, found_again
from saccade.tasks.sources.task_set import TaskPool, expanded, open_tasks
from saccade.training.rl.engines.settings import VLLM
from saccade.training.rl.recipe import Recipe, RewardSettings
from saccade.training.rl.rollouts import check_sampling
from saccade.training.rl.scoring import Scorer
from saccade.training.rl.select import epoch_order
from saccade.training.rl.settings import MAY_CHANGE, MAY_DIFFER, MAY_GROW, RlSettings, check_settings, check_trainer
from saccade.training.settings import check_folder

_log = logging.getLogger(__name__)
_order = lru_cache(16)(epoch_order)


@dataclass(frozen=True)
class TaskList:
    """Tasks that can be made."""

    ids: tuple[str, ...]
    make: Callable[[str, MediaStore], Task]
    """Make the task of that id, and put its media into the store."""
    total: int | None = None
    """Tasks of the sources; None: one has no end."""
    groups: tuple[tuple[str, ...], ...] = ()
    """The ids of each source, where sources have shares."""
    shares: tuple[float, ...] = ()
    contents: tuple[str, ...] = ()
    """What each of `ids` says, see `TaskSummary.content`."""
    broken: BrokenTasks | None = None
    """Where tasks that cannot be made are counted; None: they end the run."""
    gone: frozenset[str] = frozenset()
    """Tasks that were taken out of the sources since the run began."""

    def made(self, name: str, store: MediaStore) -> Task | None:
        """Make a task; None if it was taken out or cannot be made. Raises `DataError` if these are too many."""
        if name in self.gone:
            return None
        if self.broken is None:
            return self.make(name, store)
        return self.broken.made(name, lambda: self.make(name, store))

    def at(self, place: int, seed: int) -> str:
        """Return the id of the task at `place` (from 0) of an endless sequence of epochs."""
        if not self.groups:
            return _at(self.ids, place, seed)
        group, before = self._turns.at(place)
        return _at(self.groups[group], before, seed)

    def only(self, ids: Sequence[str]) -> TaskList:
        """Return a list of only these tasks; a source of which none is left has no share any more."""
        if not self.groups:
            return replace(self, ids=tuple(ids), contents=())
        left = frozenset(ids)
        kept = [
            (tuple(name for name in group if name in left), share)
            for group, share in zip(self.groups, self.shares, strict=True)
        ]
        kept = [(group, share) for group, share in kept if group]
        groups, shares = tuple(group for group, _ in kept), tuple(share for _, share in kept)
        return replace(self, ids=tuple(ids), groups=groups, shares=shares, contents=())

    @cached_property
    def _turns(self) -> Turns:
        return Turns(self.shares)


def validation_tasks(
    named: Sequence[str],
    trained_on: Sequence[str | SourceSettings],
    most: int,
    dialect: Dialect | None = None,
) -> TaskList | None:
    """Open the tasks that a run is validated on, of each source at most `most`; None where there are none.

    If none are `named`, those of the validation splits of the worlds that are trained on. Raises as `open_tasks`, and
    `SettingsError` where the `dialect` cannot show one of them.
    """
    wanted = SourceDefaults(split="validation", most=most)
    if named:
        return _checked(open_tasks(named, wanted), dialect)
    plain = [source.model_copy(update={"split": "", "most": most}) for source in expanded(trained_on)]
    worlds = [source for source in plain if isinstance(open_reader(source, wanted), WorldReader)]
    if not worlds:
        _log.warning("Nothing is validated: no world is trained on, and validation.source names no tasks.")
        return None
    return _checked(open_tasks(worlds, wanted), dialect)


def _checked(tasks: TaskPool, dialect: Dialect | None) -> TaskList:
    if dialect is not None:
        check_media(tasks.parts, dialect)
    return as_list(tasks)


def as_list(tasks: TaskPool) -> TaskList:
    """List the tasks as a run draws them."""
    shares = tasks.shares if len(tasks.parts) > 1 else None
    groups = () if shares is None else tuple(tuple(light.id for light in part.lights) for part in tasks.parts)
    contents = tuple(light.content for part in tasks.parts for light in part.lights)
    return TaskList(tasks.ids, tasks.make, tasks.total, groups, shares or (), contents)


def _at(ids: tuple[str, ...], place: int, seed: int) -> str:
    return _order(ids, seed, place // len(ids))[place % len(ids)]


MOST = 64
"""Tasks that `check_tasks` makes, spread over all."""


def check_run(settings: RlSettings, out: Path, resume: bool) -> None:
    """Raise `SettingsError` for settings that cannot be trained, or a folder that this run may not write to.

    The first check of a run, before anything is loaded; then come servers, tasks and warnings.
    """
    check_settings(settings)
    check_sampling(settings.recipe.rollout.sampling)
    check_trainer(out, settings.trainer.name)
    check_folder(settings, out, resume, MAY_DIFFER, MAY_GROW, MAY_CHANGE)


def check_engine_is_there(settings: RlSettings, processes: int) -> None:
    """Check the servers that a run samples from and that judge, if any, for so many processes of training.

    Raises:
        SettingsError: there are too few GPUs for servers that the run starts, or a judge cannot be started.
        UnavailableError: vLLM is to be started and not installed.
        ModelRefusedError: a server is of no use.
        ModelLostError: a server cannot be reached.
    """
    if settings.engine.source == VLLM:
        from saccade.training.rl.engines.vllm_process import check_servers

        check_servers(settings.engine, processes, settings.judge.gpus or 0)
    elif settings.engine.addresses:
        from saccade.training.rl.engines.wire import check_reached

        sync.run(check_reached(settings.engine.addresses, settings.retry))
    if settings.judge.gpus is not None:
        from saccade.training.rl.engines.judge_server import check_judge

        check_judge(settings.judge, settings.recipe.reward, not_judging(settings, processes))


def check_hosts(settings: RlSettings) -> None:
    """Check a run whose processes are on several hosts.

    Raises `SettingsError`: it would start servers, which only their own host can reach.
    """
    named = {"engine.source=vllm": settings.engine.source == VLLM, "judge.gpus": settings.judge.gpus is not None}
    for name, starts in named.items():
        if starts:
            raise SettingsError(
                f"{name} starts servers that only this host can reach, and the run has processes on several. Start "
                "them yourself where every host reaches them, and name their addresses (--engine, reward.judge_model)."
            )


def not_judging(settings: RlSettings, processes: int) -> int:
    """Count the GPUs that train or serve rollouts in a run of so many processes."""
    return processes + (settings.engine.gpus if settings.engine.source == VLLM else 0)


def check_sources(settings: RlSettings) -> None:
    """Check that the sources of tasks are there, without reading their rows. Raises as `open_checked`."""
    with _hinted(settings):
        for source in expanded(settings.sources):
            open_reader(source, SourceDefaults(split="train", most=settings.tasks.most))


@contextmanager
def _hinted(settings: RlSettings) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        hint = "" if settings.tasks.source else " (The recipe trains on it; --tasks names others.)"
        raise DataError(f"{error}{hint}") from error


def open_checked(settings: RlSettings) -> TaskPool:
    """Open the tasks that are trained on.

    Raises:
        SettingsError: the reward cannot be paid for some (`check_rewards`), or the dialect cannot show their media.
    """
    with _hinted(settings):
        opened = open_tasks(settings.sources, SourceDefaults(split="train", most=settings.tasks.most))
    check_rewards(opened, settings.recipe.reward)
    _rehearse(opened, settings.recipe)
    check_media(opened.parts, load_dialect(settings.recipe.dialect))
    return opened


def _rehearse(tasks: TaskPool, recipe: Recipe) -> None:
    """Have a world, a grader and a reward of a user's own do their part for the first task, before weights are loaded.

    Raises `OwnCodeError`: one of them raises, or gives what it may not.
    """
    reward = recipe.reward
    own = [REWARDS.code(reward.preset), reward.grader and GRADERS.code(reward.grader)]
    if not any(own) and not any(isinstance(part.reader, WorldReader) for part in tasks.parts):
        return
    with TemporaryDirectory() as folder, suppress(*BROKEN):  # a task that cannot be made is left out when it is drawn
        task = tasks.make(tasks.ids[0], MediaStore(folder))
        rehearse(reward.grader, task)
        if own[0] is not None:
            text = load_dialect(recipe.dialect).write(Answer(text=task.answer or "1"), "I look.")
            turn = Turn(text=text, action=Answer(text=task.answer or "1"))
            right = (Score(name=CORRECT, value=1.0),)
            trial = Trajectory(id=f"{task.id}#0", task=task, turns=(turn,), stop=StopReason.ANSWERED, scores=right)
            paid(reward.load(), unjudged([trial, trial.model_copy(update={"id": f"{task.id}#1"})]))


def warn_of_run(recipe: Recipe, dialect: Dialect, tasks: TaskList, scorer: Scorer, store: MediaStore) -> None:
    """Warn of what makes a run worth less and stops none: `check_tasks`, `check_form`."""
    check_tasks(tasks, scorer, store)
    check_form(dialect, scorer.preset, (recipe.dialect, recipe.reward.preset))


def check_form(dialect: Dialect, preset: RewardPreset, names: tuple[str, str]) -> None:
    """Warn where a reward fines the form of what the dialect asks for; `names` are those of both."""
    if fines_form(preset, dialect):
        _log.warning(
            "The reward %s wants another form than the dialect %s asks for: its part `format` is below 0 however well "
            "a model follows the prompt. Take a dialect and a reward of the same paper.",
            names[1],
            names[0],
        )


def check_rewards(tasks: TaskPool, reward: RewardSettings) -> None:
    """Check that the reward can be paid for all tasks, with the parameters that some set themselves.

    Raises `SettingsError`: it has no such parameter, tasks have no gold answer and the reward is one of Saccade's, or
    tasks name a grader that cannot be had.
    """
    if not reward.grader:
        check_graders(tasks.parts)
    for part in tasks.parts:
        without = [light.id for light in part.lights if not light.answered]
        if without and REWARDS.has(reward.preset.partition(":")[0]):
            raise SettingsError(
                f"{len(without)} of {len(part.lights)} tasks of {part.settings} have no gold answer (the first: "
                f"{without[0]}), and {reward.preset} is not paid without one. Add answers, or leave these tasks out."
            )
        for own in dict.fromkeys(light.reward for light in part.lights if light.reward):
            try:
                reward.load_with((), dict(own))
            except SaccadeError as error:
                raise SettingsError(f"the reward of tasks of {part.settings} ({dict(own)}): {error}") from error


def check_tasks(tasks: TaskList, scorer: Scorer, store: MediaStore) -> None:
    """Warn where a part of the reward would be 0 for every task, and where a judge is never asked or is missing."""
    step = max(1, len(tasks.ids) // MOST)
    tried = (tasks.made(name, store) for name in tasks.ids[::step][:MOST])
    seen = [task for task in tried if task is not None]
    of = f"none of {len(seen)} tasks" if len(seen) < len(tasks.ids) else f"none of the {len(seen)} tasks"
    preset = scorer.preset
    if isinstance(preset, SearchesTasks) and not any(map(preset.searches, seen)):
        _log.warning(
            "The tool reward is 0 for every call: %s has evidence boxes or one of the tags %s. Name the tag of "
            "yours in reward.parameters.search_tags; they have: %s.",
            of,
            ", ".join(preset.search_tags),
            ", ".join(sorted({tag for task in seen for tag in task.tags})[:12]) or "none",
        )
    if isinstance(preset, ByTag):
        had = {tag for task in seen for tag in task.tags}
        for tag in preset.tagged.keys() - had:
            _log.warning("reward.by_tag.%s has no effect: %s has that tag.", tag, of)
    judge, is_open = scorer.answers.judge, scorer.answers.is_open
    if judge is not None and not any(map(is_open, seen)):
        _log.warning(
            "The judge of answers is never asked: %s has the grader `judge` or one of reward.open_tags (%s).",
            of,
            ", ".join(scorer.answers.open_tags) or "none is set",
        )
    if judge is None and not scorer.answers.grader and any(task.is_open for task in seen):
        _log.warning(
            "Tasks have open answers (their grader is `judge`), and reward.answer_judge names no model: the rule for "
            "their type of answer grades them."
        )


TASK_IDS: Final = "task-ids.jsonl"


class KeptTask(NamedTuple):
    """A task that the run was begun with."""

    id: str
    content: str
    source: int


def keep_tasks(tasks: TaskList, out: Path) -> None:
    """Write which tasks the run in `out` begins with: id, what it says and number of its source, a line for each."""
    sources = {name: number for number, group in enumerate(tasks.groups) for name in group}
    kept = (
        KeptTask(name, content, sources.get(name, 0)) for name, content in zip(tasks.ids, tasks.contents, strict=True)
    )
    write_atomic(out / TASK_IDS, "".join(json.dumps(task, ensure_ascii=False) + "\n" for task in kept))


def resumed_tasks(tasks: TaskList, out: Path) -> TaskList:
    """Return the tasks with which the run in `out` was begun, made from `tasks`, which are those of today.

    They keep their order without those that are no longer there: the others come when they would have come.
    Raises `TrainingError`: there are tasks that the run was not begun with, or none is left.
    """
    file = out / TASK_IDS
    if not file.exists():
        return tasks
    before = [KeptTask(*json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    found = found_again([task[:2] for task in before], zip(tasks.ids, tasks.contents, strict=True))
    if found.foreign or not found.names:
        new = f"{len(found.foreign):,} of today's say something else or are new, {', '.join(found.foreign[:1])} first"
        raise TrainingError(
            f"the run was begun with other tasks: {new if found.foreign else 'none is left'}. Put the old ones back, "
            "or begin anew in another folder."
        )
    if found.gone:
        _log.warning(
            "The run in %s goes on without %s of %s tasks, which were taken out since it began: %s. The others are the "
            "same, and come in the same order.",
            out,
            f"{len(found.gone):,}",
            f"{len(before):,}",
            found.said(),
        )
    groups = tuple(tuple(task.id for task in before if task.source == number) for number in range(len(tasks.groups)))
    return replace(
        tasks,
        ids=tuple(task.id for task in before),
        contents=tuple(task.content for task in before),
        make=lambda name, store: tasks.make(found.names[name], store).model_copy(update={"id": name}),
        groups=groups,
        gone=frozenset(found.gone),
    )
