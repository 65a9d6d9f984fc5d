"""Judge exactly, by gold boxes, whether a call cut out the evidence.

`saccade.episode` finds the region a call looked at, from code, arguments and returned pixels. A region scores `full`
if it holds most of a gold box, `part` if it holds some of it, else `miss`; one that covers much of the picture is a
miss. The best region of a call counts. A call that returned no picture scores 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import Field

from saccade.core.settings import Settings
from saccade.episode.regions import StoredPixels, regions
from saccade.record.content import Box, ImagePart, area, overlap
from saccade.record.task import EvidenceBox, Task
from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.model import JudgeContext
from saccade.rewards.reward import Judge, JudgeVerdict, NoVerdict, is_call


class Looked(Protocol):
    """A part of a task's picture that a turn looked at; `saccade.episode.regions.Region` is one."""

    @property
    def turn(self) -> int:
        """Return the number of the turn, from 0."""

    @property
    def name(self) -> str:
        """Return the name of the picture in the task's media."""

    @property
    def box(self) -> Box:
        """Return the region in `xyxy` pixels."""


class BoxRule(Settings):
    """Thresholds and levels of evidence."""

    full: float = 1.0
    part: float = 0.5
    miss: float = 0.25
    """The three levels of CodeV's tool judge; 0.25 for a miss is the paper's."""
    contained: float = Field(default=0.75, gt=0, le=1)
    """Fraction of a gold box that a full hit holds."""
    touched: float = Field(default=0.25, gt=0, le=1)
    """Fraction of a gold box that a partial hit holds."""
    largest: float = Field(default=0.5, gt=0, le=1)
    """Largest fraction of the picture that a region may cover."""


@dataclass(frozen=True, slots=True)
class BoxJudge:
    """Scores calls by gold boxes; `find` finds the regions of a trajectory."""

    find: Callable[[Trajectory], Sequence[Looked]]
    rule: BoxRule = field(default_factory=BoxRule)

    async def judge(self, trajectory: Trajectory, turns: Collection[int]) -> tuple[JudgeVerdict | None, ...]:
        """Return a verdict for each of the `turns`."""
        made = self.verdicts(trajectory)
        return tuple(verdict if number in turns else None for number, verdict in enumerate(made))

    def verdicts(self, trajectory: Trajectory) -> tuple[JudgeVerdict | None, ...]:
        """Return a verdict for each turn with a call, without an event loop."""
        if not trajectory.task.evidence:
            none = JudgeVerdict(invalid=NoVerdict.NO_EVIDENCE)
            return tuple(none if is_call(turn) else None for turn in trajectory.turns)
        boxes = self.find(trajectory)
        return tuple(
            self._verdict(trajectory, number, boxes) if is_call(turn) else None
            for number, turn in enumerate(trajectory.turns)
        )

    def _verdict(self, trajectory: Trajectory, number: int, regions: Sequence[Looked]) -> JudgeVerdict:
        run = trajectory.turns[number].execution
        if run is None or not run.pictures:
            return JudgeVerdict(score=0.0, detail="no picture came back")
        looked = [item for item in regions if item.turn == number]
        if not looked:
            return JudgeVerdict(score=self.rule.miss, detail="no part of a picture was cut out")
        return JudgeVerdict(score=max(self.level(trajectory.task, item) for item in looked))

    def level(self, task: Task, looked: Looked) -> float:
        """Return the rule's `full`, `part` or `miss` for one region."""
        picture = next((item.part for item in task.media if item.name == looked.name), None)
        if not isinstance(picture, ImagePart) or area(looked.box) > self.rule.largest * picture.width * picture.height:
            return self.rule.miss
        held = max((containment(gold, looked) for gold in task.evidence), default=0.0)
        if held >= self.rule.contained:
            return self.rule.full
        return self.rule.part if held >= self.rule.touched else self.rule.miss


def containment(gold: EvidenceBox, looked: Looked) -> float:
    """Return the fraction of the gold box that the region holds, 0 to 1."""
    return overlap(gold.xyxy, looked.box) / area(gold.xyxy) if gold.image == looked.name else 0.0


def boxes(context: JudgeContext) -> Judge:
    """Judge exactly, where tasks have gold boxes: did a call cut out the evidence?"""
    full, part, miss = context.rules.levels
    rule = BoxRule(full=full, part=part, miss=miss)
    return BoxJudge(lambda trajectory: regions(trajectory, StoredPixels(context.store)), rule)
