"""From a claim and its settings to a verdict with a table and a figure.

Start, arms and examinations are folders of their own; what is there is not made again, and what was interrupted
continues. The start is made of demonstrations as run folders and a few steps of fine-tuning on them:

    START/demonstrations/NUMBER-PLAY-SET/...  sft/...  (as `saccade sft` writes it)

An arm is a run of `saccade rl`: its recipe with the tiny profile, what the claim changes, and its seed. An examination
plays one rollout of every held-out task, in the order of the tasks. Imports torch; import this module late.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch

from examples.reproduce.evidence import Claim, Evidence, Expectation, Finding, MeasuredEffect, judge, overall_verdict
from examples.reproduce.exam import Places, write_tasks
from examples.reproduce.outcome import ClaimOutcome, draw, expected, rows_of, write_outcome
from examples.reproduce.settings import (
    PROBE_STEPS,
    Arm,
    DemonstrationSet,
    ExamSettings,
    Reproduction,
    StartSettings,
    TaskSet,
    TimeSpent,
    TrialPlan,
    WeakDemonstrator,
    make_plan,
    read_plan,
    seconds_per_rollout,
    write_plan,
)
from saccade.core import sync
from saccade.dialects.base import load_dialect
from saccade.episode.drive import equipped
from saccade.episode.flow import Plan, limits_with
from saccade.episode.run_folder import MEDIA, RunFolder, continued
from saccade.episode.settings import sandbox_at
from saccade.errors import SettingsError, TrainingError
from saccade.grading.registry import scored_by_rule
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.models.registry import checkpoint_named
from saccade.plugins.worlds.experts.expert import Expert
from saccade.plugins.worlds.experts.scene import ExpertSettings
from saccade.record.trajectory import EpisodeLimits, Sampling
from saccade.tasks.sources.folder import TASKS
from saccade.tasks.sources.resolve import SourceDefaults
from saccade.tasks.sources.task_set import open_tasks
from saccade.tasks.worlds import Rng
from saccade.tokens.decoder import TransformersEngine
from saccade.training.launch import launch
from saccade.training.rl.metrics import RlCallback
from saccade.training.rl.rollouts import RolloutResources, generate_rollouts
from saccade.training.rl.run import train as train_rl
from saccade.training.rl.settings import GenerationSettings, RlSettings, load_rl_settings
from saccade.training.rl.tasks import as_list
from saccade.training.settings import SETTINGS, KeepSettings, ModelSettings, OptimizerSettings
from saccade.training.sft.examples import SftCallback
from saccade.training.sft.run import train as train_sft
from saccade.training.sft.settings import (
    BatchSettings,
    DataSettings,
    SftLossSettings,
    SftSettings,
    SftValidationSettings,
)
from saccade.training.sft.synth.makers import Job, Jobs
from saccade.training.sft.synth.outcome import opened
from saccade.training.sft.synth.prompts import in_order
from saccade.training.sft.synth.run import Synthesizer
from saccade.training.sft.synth.settings import SynthSettings
from saccade.training.weights import load_trainable

PROFILE = "tiny"
_SEEDS_APART = 1000
"""Added to the seed of an arm that continues another one, so that it draws anew."""


def arm_settings(settings: Reproduction, arm: Arm, seed: int) -> RlSettings:
    """Return the settings of an arm but for its checkpoint, its tasks and its steps.

    Raises:
        SettingsError: the recipe is not there, or a change of it is wrong.
        RegistryError: the recipe names a dialect or reward that does not exist.
    """
    drawn = seed + _SEEDS_APART if arm.after else seed
    changes = [*_MACHINE, *settings.every_arm, f"dialect={arm.dialect}", *arm.change]
    run = load_rl_settings(arm.recipe, PROFILE, changes)
    changed: dict[str, object] = {"seed": drawn} | ({} if arm.curriculum else {"curriculum": None})
    if settings.turns is not None:
        rollout = run.recipe.rollout
        limits = limits_with(rollout.limits or EpisodeLimits(), turns=settings.turns)
        changed["rollout"] = rollout.model_copy(update={"limits": limits})
    recipe = run.recipe.model_copy(update=changed)
    return run.model_copy(update={"recipe": recipe, "threads": settings.threads})


def complete_settings(settings: RlSettings, checkpoint: str, tasks: Path, most: int, steps: int) -> RlSettings:
    """Complete the settings of an arm."""
    return settings.model_copy(
        update={
            "recipe": settings.recipe.model_copy(update={"steps": steps}),
            "model": settings.model.model_copy(update={"source": checkpoint}),
            "tasks": settings.tasks.model_copy(update={"source": (str(tasks),), "most": most}),
        }
    )


_MACHINE = (
    "validation.every=0", "keep.every=5", "keep.checkpoints=1", "keep.tensorboard=false", "rollouts.every=0",
    "generation.max_concurrency=24",
)  # fmt: skip
"""Held-out tasks are examined afterwards, and rollouts are kept where a claim asks for them. Few programs run at
once, so that two cores finish them within their limit of time."""
_FORWARD_TOKENS = 4096
_BRIEF = ExpertSettings(verbosity="short")


def make_start(settings: Reproduction, source: str, root: Path, callback: SftCallback) -> str:
    """Return the checkpoint that all arms begin from: `source` itself, or what is made of it in `root`.

    Raises:
        SettingsError: a play does not fit a world, or `root` was begun with other settings.
        ModelRefusedError: the checkpoint cannot be loaded.
    """
    start = settings.start
    if not start.steps:
        return source
    out = root / "sft"
    if not (out / "model").exists():
        runs = [
            root / "demonstrations" / f"{at}-{item.play}-{item.tasks}" for at, item in enumerate(start.demonstrations)
        ]
        first = 0
        for kind, run in zip(start.demonstrations, runs, strict=True):
            sync.run(_hold(kind, settings.set_named(kind.tasks), first, run, settings.turns))
            first += kind.n
        train_sft(_sft(start, source, runs, settings.threads), out, resume=(out / SETTINGS).exists(), callback=callback)
    return str(out / "model")


async def _hold(kind: DemonstrationSet, tasks: TaskSet, first: int, out: Path, turns: int | None) -> None:
    """Make what is missing of a set: demonstrations that end with an answer. No two sets share a task.

    Raises:
        SettingsError: not one demonstration could be played.
    """
    settings = SynthSettings(
        sources=tasks.worlds,
        dialect=kind.dialect,
        n=kind.n,
        start=first,
        knobs=tasks.knobs,
        limits=EpisodeLimits(turns=turns),
    )

    def player(job: Job, plan: Plan, notes: Mapping[str, str]) -> Model:
        seed = job.seed(settings)
        if kind.play == "consult":
            return Expert.of(plan, notes=notes, settings=_BRIEF, seed=seed, style="consult")
        return WeakDemonstrator(plan, kind, notes, Rng(seed))

    synthesizer = Synthesizer(settings, MediaStore(out / MEDIA), player=player)
    run = opened(out, settings)
    missing = [job for job in Jobs(settings) if job.id not in run.done]
    if not missing:
        return
    reason = ""
    async with synthesizer:
        async for made in in_order(missing, synthesizer.make, 4):
            if made.trajectory is not None and made.trajectory.answer is not None:
                run.folder.append(made.trajectory)
            else:
                reason = reason or made.detail or "it came to no answer within its turns"
    if not run.folder.ids:
        raise SettingsError(f"no demonstration {kind.play!r} of {kind.tasks!r} could be played, as of this: {reason}")


def _sft(start: StartSettings, source: str, runs: list[Path], threads: int) -> SftSettings:
    return SftSettings(
        data=DataSettings(runs=tuple(map(str, runs)), sampled_ids="text"),
        loss=SftLossSettings(average=start.average),
        model=ModelSettings(source=source, vision="full"),
        optimizer=OptimizerSettings(method=start.method, learning_rate=start.learning_rate, warmup=0.1),
        batch=BatchSettings(trajectories=start.trajectories, tokens=_FORWARD_TOKENS),
        validation=SftValidationSettings(fraction=0.0, every=0, samples=0),
        keep=KeepSettings(every=max(1, start.steps // 4), checkpoints=1, tensorboard=False),
        steps=start.steps,
        seed=start.seed,
        threads=threads,
    )


_AT_ONCE = 24
"""Tasks that are played together, and kept when all are done."""


def examine(
    checkpoint: str, tasks: Path, out: Path, settings: ExamSettings, dialect: str, turns: int | None = None
) -> int:
    """Give the tasks in `tasks` to the checkpoint in the folder `checkpoint`; episodes are kept in `out`.

    An episode has at most `turns` turns, or as many as the dialect allows. Returns how many episodes were played now.

    Raises:
        ModelRefusedError: the checkpoint cannot be loaded.
        IsolationError: this machine cannot isolate a sandbox.
    """
    folder = RunFolder(out)
    count = sum(1 for line in (tasks / TASKS).read_text(encoding="utf-8").splitlines() if line)
    held = as_list(open_tasks([str(tasks)], SourceDefaults(most=count)))
    made = [held.make(name, folder.store) for name in held.ids]
    spoken, _ = equipped(load_dialect(dialect))
    sampling = Sampling(temperature=settings.temperature, max_tokens=settings.max_tokens)
    limits = limits_with(spoken.limits, turns=turns)
    plans = [Plan(task, spoken, sampling, limits, group=task.id) for task in made]
    missing = [plan for plan in plans if plan.id not in folder]
    if missing:
        sync.run(_play(checkpoint, missing, folder))
    return len(missing)


async def _play(checkpoint: str, plans: Sequence[Plan], folder: RunFolder) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    trained = load_trainable(ModelSettings(source=checkpoint), device, 0)
    trained.model.eval()
    spoken = plans[0].dialect
    _, tools = equipped(spoken)
    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(sandbox_at("local", spoken.sandbox))
        engine = TransformersEngine(trained, folder.store)
        stack.push_async_callback(engine.close)
        stage = RolloutResources(engine, trained.encoder, sandbox, folder.store, tools)
        for first in range(0, len(plans), _AT_ONCE):
            played, _ = await generate_rollouts(plans[first : first + _AT_ONCE], stage, GenerationSettings(), 0)
            for made in (item.trajectory for item in played):
                folder.append(made.with_scores([scored_by_rule(made.answer, made.task)]))


class ReproduceCallback(Protocol):
    """Hears how a reproduction goes; decides nothing."""

    def says(self, text: str) -> None:
        """Hear something that a reader wants to know."""

    def sft(self) -> AbstractContextManager[SftCallback]:
        """Return what hears the training of the start."""

    def rl(self) -> AbstractContextManager[RlCallback]:
        """Return what hears the training of an arm."""


def reproduce(claim: Claim, settings: Reproduction, out: Path, watch: ReproduceCallback) -> ClaimOutcome:
    """Try a claim in the folder `out`.

    Raises:
        SettingsError: an arm that the claim needs is missing, a setting is wrong, the time is too short, or `out` was
            begun with other settings.
        ModelRefusedError: the checkpoint cannot be loaded.
        TrainingError: the start, or the probe, cannot be trained. Of an arm it is part of the outcome.
        IsolationError: this machine cannot isolate a sandbox.
    """
    began = time.monotonic()
    arms = {arm.name: arm_settings(settings, arm, settings.seeds[0]) for arm in settings.arms}
    claim.check(settings, arms)
    expectations = claim.expectations(settings)
    watch.says(expected(claim, expectations))
    continued(out, settings, may_differ={"minutes", "processes", "seeds"}, kept=("start", "arms", "plan.json"))
    trial = _Trial(Places(out, settings), watch)
    plan = trial.prepare(arms, began)
    for seed in settings.seeds:
        for arm in settings.arms:
            trial.arm(arm, seed, plan.steps)
    evidence = Evidence(trial.places, arms)
    findings = _findings(claim, expectations, evidence, "; ".join(trial.failed) or evidence.busy())
    return _outcome(claim, findings, evidence, plan)


def _findings(
    claim: Claim, expectations: Sequence[Expectation], evidence: Evidence, missing: str
) -> tuple[Finding, ...]:
    """Return the findings; nothing is decided where something is `missing`."""
    measured = claim.measure(evidence)
    known = {name: MeasuredEffect(item.by_seed, item.missing or missing) for name, item in measured.items()}
    return tuple(judge(item, known[item.name]) for item in expectations)


def _outcome(claim: Claim, findings: tuple[Finding, ...], evidence: Evidence, plan: TrialPlan) -> ClaimOutcome:
    verdict = overall_verdict(findings)
    settings, root = evidence.settings, evidence.places.root
    rows = rows_of(evidence)
    outcome = ClaimOutcome(
        claim=claim.name,
        says=claim.says,
        source=claim.source,
        verdict=verdict,
        findings=findings,
        rows=rows,
        seeds=settings.seeds,
        plan=plan,
        model=settings.model,
        weakened=settings.start.steps > 0,
    )
    write_outcome(outcome, root)
    draw(claim, evidence, findings, verdict, root)
    return outcome


@dataclass
class _Trial:
    """Everything that is made on the way to a verdict."""

    places: Places
    watch: ReproduceCallback
    start: str = ""
    """The checkpoint that arms begin from."""
    failed: list[str] = field(default_factory=list)
    """Arms that could not be trained, and why."""

    @property
    def settings(self) -> Reproduction:
        return self.places.settings

    def prepare(self, arms: Mapping[str, RlSettings], began: float) -> TrialPlan:
        """Make the tasks and the start, examine the start, and return the plan of steps."""
        settings, places = self.settings, self.places
        for arm in settings.arms:
            sets = [settings.set_named(name) for name in settings.sets_of(arm)]
            write_tasks(sets, "train", places.tasks(arm, "train"))
            write_tasks(sets, "held-out", places.tasks(arm, "held-out"))
        self.watch.says("the start: demonstrations and a little fine-tuning")
        with self.watch.sft() as heard:
            self.start = make_start(settings, checkpoint_named(settings.model), places.start, heard)
        before, played = time.monotonic(), 0
        self.watch.says("the start is examined")
        for folder, arm in {places.start_exam(arm): arm for arm in settings.arms}.items():
            played += self._examine(self.start, arm, folder)
        seconds = (time.monotonic() - before) / max(1, played)
        plan = read_plan(places.root / "plan.json")
        if plan is None:
            plan = self._plan(arms, began, seconds)
            write_plan(places.root / "plan.json", plan)
        self.watch.says(f"every arm gets {plan.steps} steps" + (f" of {plan.asked}" * (plan.steps < plan.asked)))
        return plan

    def _plan(self, arms: Mapping[str, RlSettings], began: float, per_exam: float) -> TrialPlan:
        settings = self.settings
        per_rollout = 0.0
        if settings.minutes:
            self.watch.says("a probe: what a step costs here")
            arm = settings.arms[0]
            self._train(arm, settings.seeds[0], self.start, self.places.root / "probe", PROBE_STEPS)
            per_rollout = seconds_per_rollout(Evidence.read_steps(self.places.root / "probe"))
        sizes = {arm.name: _count(settings, arm, held_out=False) for arm in settings.arms}
        sized = {
            name: item.model_copy(update={"tasks": item.tasks.model_copy(update={"most": sizes[name]})})
            for name, item in arms.items()
        }
        exams = len(settings.seeds) * sum(_count(settings, arm, held_out=True) for arm in settings.arms)
        return make_plan(settings, sized, TimeSpent(time.monotonic() - began, per_exam, exams, per_rollout))

    def arm(self, arm: Arm, seed: int, steps: int) -> None:
        """Train an arm, and examine it; one that cannot be trained is noted."""
        out = self.places.arm(arm, seed)
        begin = self.start
        if arm.after:
            begin = str(self.places.arm(self.settings.arm(arm.after), seed) / "model")
            if not Path(begin).exists():  # noted already
                return
        if not (out / "model").exists():
            self.watch.says(f"arm {arm.name}, seed {seed}")
            try:
                self._train(arm, seed, begin, out, steps)
            except TrainingError as error:
                self.failed.append(f"arm {arm.name} with seed {seed} could not be trained: {error}")
                self.watch.says(self.failed[-1])
                return
        self._examine(str(out / "model"), arm, self.places.exam(arm, seed))

    def _train(self, arm: Arm, seed: int, checkpoint: str, out: Path, steps: int) -> None:
        run_settings = arm_settings(self.settings, arm, seed)
        most = _count(self.settings, arm, held_out=False)
        complete = complete_settings(run_settings, checkpoint, self.places.tasks(arm, "train"), most, steps)
        arguments = (complete, out, (out / SETTINGS).exists(), self.watch)
        if self.settings.processes > 1:
            launch(_train, arguments, self.settings.processes)
        else:
            _train(*arguments)

    def _examine(self, checkpoint: str, arm: Arm, out: Path) -> int:
        """Examine a checkpoint; return how many tasks were played now."""
        tasks, settings = self.places.tasks(arm, "held-out"), self.settings
        return examine(checkpoint, tasks, out, settings.exam, arm.dialect, settings.turns)


def _train(settings: RlSettings, out: Path, resume: bool, watch: ReproduceCallback) -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()  # also in processes of its own: that of `watch` is there
    with watch.rl() as heard:
        train_rl(settings, out, resume=resume, callback=heard)


def _count(settings: Reproduction, arm: Arm, *, held_out: bool) -> int:
    """Count the tasks of an arm."""
    sets = [settings.set_named(name) for name in settings.sets_of(arm)]
    return sum((item.held_out if held_out else item.train) * len(item.worlds) for item in sets)
