"""`saccade reproduce`: from a claim and its settings to a verdict with a table and a figure.

Start, arms and examinations are folders of their own; what is there is not made again, and what was interrupted
continues. Imports torch; import this module late.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from saccade.episode.continued import continued
from saccade.errors import TrainingError
from saccade.models.registry import checkpoint_named
from saccade.reproduce.arms import arm_settings, complete_settings
from saccade.reproduce.claim import Claim
from saccade.reproduce.evidence import Evidence
from saccade.reproduce.exam import examine
from saccade.reproduce.figure import draw
from saccade.reproduce.finding import Expectation, Finding, MeasuredEffect, judge, overall_verdict
from saccade.reproduce.outcome import ClaimOutcome, expected, rows_of, write_outcome
from saccade.reproduce.places import Places
from saccade.reproduce.plan import (
    PROBE_STEPS,
    TimeSpent,
    TrialPlan,
    make_plan,
    read_plan,
    seconds_per_rollout,
    write_plan,
)
from saccade.reproduce.settings import Arm, Reproduction
from saccade.reproduce.start import make_start
from saccade.reproduce.tasks import write_tasks
from saccade.rl.train.metrics import RlCallback
from saccade.rl.train.run import train
from saccade.rl.train.settings import RlSettings
from saccade.sft.train.callback import SftCallback
from saccade.training.folder import SETTINGS
from saccade.training.launch import launch


class ReproduceCallback(Protocol):
    """Hears how a reproduction goes; decides nothing."""

    def says(self, text: str) -> None:
        """Something that a reader wants to know."""

    def sft(self) -> AbstractContextManager[SftCallback]:
        """Who hears the training of the start."""

    def rl(self) -> AbstractContextManager[RlCallback]:
        """Who hears the training of an arm."""


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
    continued(out, settings, may_differ={"minutes", "processes", "seeds"})
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
    """The findings; nothing is decided where something is `missing`."""
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
        """Tasks, start, its examinations, and the number of steps."""
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
        """How many tasks were played now."""
        tasks, settings = self.places.tasks(arm, "held-out"), self.settings
        return examine(checkpoint, tasks, out, settings.exam, arm.dialect, settings.turns)


def _train(settings: RlSettings, out: Path, resume: bool, watch: ReproduceCallback) -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()  # also in processes of its own: that of `watch` is there
    with watch.rl() as heard:
        train(settings, out, resume=resume, callback=heard)


def _count(settings: Reproduction, arm: Arm, *, held_out: bool) -> int:
    """Tasks of an arm."""
    sets = [settings.set_named(name) for name in settings.sets_of(arm)]
    return sum((item.held_out if held_out else item.train) * len(item.worlds) for item in sets)
