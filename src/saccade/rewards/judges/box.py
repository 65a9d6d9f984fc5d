"""The exact judge: where the evidence is known, did a call cut it out?

Where a call looked is found by `saccade.episode` from code, arguments and the pixels of what came back. A region scores
`full` if it holds most of a gold box and is not much larger than it, `part` if it holds some of it, else `miss`. A
large region holds everything and shows nothing, so it is a miss. Only the best region of a call counts. A call that
gave no picture back scores 0: it brought no visual evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from pydantic import Field

from saccade.core.settings import Settings
from saccade.episode.regions import Region, StoredPixels, regions
from saccade.media.store import MediaStore
from saccade.record.content import Box, ImagePart, area, overlap
from saccade.record.task import EvidenceBox, Task
from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.registry import JudgeContext
from saccade.rewards.judges.verdict import Judge, JudgeVerdict, NoVerdict
from saccade.rewards.reward import is_call


class Looked(Protocol):
    """A part of a task's picture that a turn looked at; `saccade.episode.regions.Region` is one."""

    @property
    def turn(self) -> int:
        """From 0."""

    @property
    def name(self) -> str:
        """Of the picture in the task's media."""

    @property
    def box(self) -> Box:
        """`xyxy` pixels."""


class BoxRule(Settings):
    """What counts as evidence."""

    full: float = 1.0
    part: float = 0.5
    miss: float = 0.25
    """The three levels of CodeV's tool judge; 0.25 for a miss is the paper's."""
    contained: float = Field(default=0.75, gt=0, le=1)
    """Fraction of a gold box that a full hit holds."""
    touched: float = Field(default=0.25, gt=0, le=1)
    """Fraction of a gold box that a partial hit holds."""
    largest: float = Field(default=0.5, gt=0, le=1)
    """Fraction of the picture from which a region shows nothing in particular."""


@dataclass(frozen=True, slots=True)
class BoxJudge:
    """Scores calls by gold boxes; pure, given how regions are found."""

    find: Callable[[Trajectory], Sequence[Looked]]
    rule: BoxRule = field(default_factory=BoxRule)

    async def judge(self, trajectory: Trajectory, turns: Collection[int]) -> tuple[JudgeVerdict | None, ...]:
        """A verdict for each of the `turns`."""
        made = self.verdicts(trajectory)
        return tuple(verdict if number in turns else None for number, verdict in enumerate(made))

    def verdicts(self, trajectory: Trajectory) -> tuple[JudgeVerdict | None, ...]:
        """A verdict for each turn that called something, without an event loop."""
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
        """`picture`, `part` or `miss` of the rule for one region."""
        picture = next((item.part for item in task.media if item.name == looked.name), None)
        if not isinstance(picture, ImagePart) or area(looked.box) > self.rule.largest * picture.width * picture.height:
            return self.rule.miss
        held = max((containment(gold, looked) for gold in task.evidence), default=0.0)
        if held >= self.rule.contained:
            return self.rule.full
        return self.rule.part if held >= self.rule.touched else self.rule.miss


def containment(gold: EvidenceBox, looked: Looked) -> float:
    """Fraction of the gold box that the region holds, 0 to 1."""
    return overlap(gold.xyxy, looked.box) / area(gold.xyxy) if gold.image == looked.name else 0.0


# The judge `boxes`: the exact one over the pictures of a store, as the registry makes it.


def boxes(context: JudgeContext) -> Judge:
    """Exact, where tasks have gold boxes: did a call cut the evidence out?"""
    full, part, miss = context.rules.levels
    return BoxJudge(partial(_looked, context.store), BoxRule(full=full, part=part, miss=miss))


def _looked(store: MediaStore, trajectory: Trajectory) -> Sequence[Region]:
    return regions(trajectory, StoredPixels(store))
