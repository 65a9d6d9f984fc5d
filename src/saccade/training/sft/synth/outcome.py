"""Whether what was played is right, by a rule or a judge, and whether a run keeps it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from saccade.core.retry import RETRY_SETTINGS
from saccade.episode.run_folder import REJECTED, RunFolder, continued
from saccade.errors import (
    ModelLostError,
    ModelRefusedError,
    SaccadeError,
    SandboxLostError,
    SettingsError,
    ToolLostError,
)
from saccade.record.codec import append_line, read_lines, recover_lines
from saccade.record.content import Name, Record, Text, clean_text
from saccade.record.task import Task
from saccade.record.trajectory import CORRECT, StopReason, Trajectory
from saccade.rewards.judges.answer import AnswerJudge, judged_score
from saccade.rewards.judges.client import ASK_LIMITS
from saccade.training.sft.synth.makers import Jobs, worlds_of
from saccade.training.sft.synth.prompts import Made, graded, is_right
from saccade.training.sft.synth.settings import SynthSettings


class RejectedJob(Record):
    """A line of `rejected.jsonl`."""

    id: Name
    """Of the job, which its trajectory would have."""
    reason: Text
    detail: Text = ""


@dataclass(frozen=True)
class OutcomeFilter:
    """Grades trajectories and chooses among them."""

    settings: SynthSettings
    judge: AnswerJudge | None = None

    async def made(self, played: Trajectory, *, exactly: bool) -> Made:
        """Return the trajectory with its score `correct`, or why it is not kept."""
        scored = await self._graded(played, exactly)
        value = next((score.value for score in scored.scores if score.name == CORRECT), None)
        if self.settings.keep == "all" or value == 1.0:
            return Made(scored)
        if value is None:
            detail = next((score.detail for score in scored.scores if score.name == CORRECT), "")
            return Made(None, "not graded", detail)
        return Made(None, "wrong answer", f"{scored.answer!r} for {scored.task.answer!r}", final=True)

    async def close(self) -> None:
        if self.judge is not None:
            await self.judge.model.close()

    async def _graded(self, played: Trajectory, exactly: bool) -> Trajectory:
        if any(score.name == CORRECT and score.value is not None for score in played.scores):
            return played
        if self.judge is None or not self._is_judged(played.task):
            return graded(played, exactly=exactly)
        verdict = await self.judge.verdict(played.answer, played.task)
        return played.with_scores([judged_score(f"judge:{self.settings.judge}", played.answer, verdict)])

    @staticmethod
    def _is_judged(task: Task) -> bool:
        return task.is_open and task.answer is not None and bool(task.answer.strip())


def outcome_lines(settings: SynthSettings, jobs: Jobs) -> tuple[str, ...]:
    """Return what a user should know of how the tasks can be graded.

    Raises `SettingsError`: only right answers are to be kept, and no task has a gold answer.
    """
    lights = [light for part in jobs.tasks.parts if not part.endless for light in part.lights]
    unknown = sum(not light.answered for light in lights)
    if settings.keep == "right" and lights and unknown == len(lights):
        raise SettingsError(
            "keep = right needs gold answers, and no task of the sources has one. Leave keep out, or name the field "
            "of the answer (fields.answer)."
        )
    said = []
    if settings.keep == "right" and unknown:
        said.append(f"{unknown} tasks have no gold answer: nothing of them can be kept with keep = right")
    opened = sum(light.grader.partition("|")[0] == "judge" for light in lights)
    if opened and not settings.judge:
        said.append(f"{opened} tasks have open answers, which a rule compares, since no judge is named (judge=MODEL)")
    return tuple(said)


# A run of synthesis that can be interrupted and resumed.
#
# Continuing is exact: the same settings give the same jobs, a job's trajectory depends on nothing but its settings, and
# what is there, or was rejected for good, is not made again. A larger `n` is no change of what is there, so it may
# differ, and so may `retry` and the limit in dollars.


JUDGE_LIMITS = tuple(f"judge_rules.{name}" for name in ASK_LIMITS)
PRICE_SETTINGS = ("teacher.dollars", "teacher.expect_tokens")
"""They decide nothing that a run holds, so a run may be continued with others."""


@dataclass(frozen=True)
class Opened:
    """A run folder that is ready for more."""

    folder: RunFolder
    done: frozenset[str]
    """Ids of the trajectories that are there."""
    rejected: frozenset[str]
    """Ids of the jobs that were played and are not wanted."""

    def reject(self, job: str, made: Made) -> None:
        """Note that a job is not to be made again."""
        reason, detail = clean_text(made.discarded), clean_text(made.detail)
        self.folder.root.mkdir(parents=True, exist_ok=True)
        append_line(self.folder.root / REJECTED, RejectedJob(id=job, reason=reason, detail=detail))


def opened(root: Path, settings: SynthSettings) -> Opened:
    """Return the folder of a run, new or to be continued, with `settings` saved in it.

    Raises `SettingsError`: it was made with other settings (names what differs), or of another version of a world, or
    it holds another command's run; `RecordError`: its trajectories cannot be read.
    """
    folder = continued(root, settings, may_differ={"n", "most_broken", *PRICE_SETTINGS, *RETRY_SETTINGS, *JUDGE_LIMITS})
    worlds = {world.id for world in worlds_of(settings)}
    names = {world.partition("@")[0] for world in worlds}
    begun = {name.partition("/")[0] for name in folder.ids}
    older = sorted(world for world in begun - worlds if world.partition("@")[0] in names)
    if older:
        raise SettingsError(
            f"{root} holds trajectories of {', '.join(older)}, of which there are newer versions now. Two versions of "
            "a world do not go into one run: name another folder."
        )
    rejected = root / REJECTED
    if rejected.exists():
        recover_lines(rejected)
    names = {job.id for job in read_lines(rejected, RejectedJob)} if rejected.exists() else set()
    return Opened(folder, folder.ids, frozenset(names))


# How a run of synthesis goes: counts that a screen shows while it runs and at its end.


OUTAGES = 8
"""So many jobs in a row without a trajectory, all for a reason of ours, end the run."""

_OUTAGE: dict[str, type[SaccadeError]] = {
    StopReason.MODEL_LOST.value: ModelLostError,
    StopReason.MODEL_REFUSED.value: ModelRefusedError,
    StopReason.SANDBOX_LOST.value: SandboxLostError,
    StopReason.TOOL_LOST.value: ToolLostError,
    "writer lost": ModelLostError,
}


def may_pass(made: Made) -> bool:
    """Return whether the job failed for a reason that may be gone the next time."""
    return made.discarded in _OUTAGE or made.discarded == StopReason.CANCELLED.value


@dataclass
class SynthProgress:
    """Counts so far."""

    total: int
    """Jobs of the run."""
    skipped: int = 0
    """Trajectories that were there before."""
    rejected_before: int = 0
    """Jobs whose trajectories were not wanted before."""
    sources: tuple[str, ...] = ()
    """A line for each source: the tasks that are taken, and those that are not."""
    estimate: str = ""
    """Rough cost of the run, in words; empty if no model is asked."""
    kept: int = 0
    rejected: int = 0
    """Trajectories that were played to their end and are not wanted."""
    right: int = 0
    """Kept ones whose score `correct` is 1."""
    makers: Counter[str] = field(default_factory=Counter)
    """Kept ones by who made them."""
    discarded: Counter[str] = field(default_factory=Counter)
    """Jobs without a trajectory, by the kind of reason."""
    example: dict[str, str] = field(default_factory=dict)
    """The first reason of each kind, in full."""
    _outages: int = 0

    @property
    def done(self) -> int:
        return self.skipped + self.rejected_before + self.kept + self.rejected + sum(self.discarded.values())

    def count(self, made: Made) -> None:
        """Count one job. Raises `SaccadeError`: there were `OUTAGES` outages in a row; says what the last one was."""
        if made.trajectory is not None:
            self._outages = 0
            self.kept += 1
            self.right += is_right(made.trajectory)
            self.makers[made.trajectory.provenance.model] += 1
            return
        if made.final:
            self._outages = 0
            self.rejected += 1
            return
        self.discarded[made.discarded] += 1
        self.example.setdefault(made.discarded, made.detail)
        outage = _OUTAGE.get(made.discarded)
        self._outages = self._outages + 1 if outage is not None else 0
        if outage is not None and self._outages >= OUTAGES:
            raise outage(
                f"{OUTAGES} jobs in a row came to nothing ({made.discarded}): {made.detail} "
                "What was made before is kept; correct the cause and run the same command again."
            )
