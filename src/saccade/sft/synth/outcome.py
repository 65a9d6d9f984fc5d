"""Whether what was played is right, by a rule or a judge, and whether a run keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from saccade.errors import SettingsError
from saccade.record.base import Name, Record, Text
from saccade.record.score import CORRECT
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.answer import AnswerJudge, judged_score
from saccade.sft.synth.jobs import Jobs
from saccade.sft.synth.made import Made, graded
from saccade.sft.synth.settings import SynthSettings

REJECTED = "rejected.jsonl"
"""File of a run with the jobs whose trajectories were not wanted; they are not tried again."""


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
        """The trajectory with its score `correct`, or why it is not kept."""
        scored = await self._graded(played, exactly)
        value = next((score.value for score in scored.scores if score.name == CORRECT), None)
        if self.settings.keep == "all" or value == 1.0:
            return Made(scored)
        if value is None:
            detail = next((score.detail for score in scored.scores if score.name == CORRECT), "")
            return Made(None, "not graded", detail)
        return Made(None, "wrong answer", f"{scored.answer!r} for {scored.task.answer!r}", final=True)

    async def close(self) -> None:
        """Close the judge."""
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
    """What a user should know of how the tasks can be graded.

    Raises:
        SettingsError: only right answers are to be kept, and no task has a gold answer.
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
