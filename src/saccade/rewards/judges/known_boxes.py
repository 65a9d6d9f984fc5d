"""The judge `boxes`: the exact one over the pictures of a store, as the registry makes it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from saccade.looks.regions import Region, StoredPixels, regions
from saccade.media.store import MediaStore
from saccade.record.trajectory import Trajectory
from saccade.rewards.judges.box import BoxJudge, BoxRule
from saccade.rewards.judges.registry import JudgeContext
from saccade.rewards.judges.verdict import Judge


def boxes(context: JudgeContext) -> Judge:
    """Exact, where tasks have gold boxes: did a call cut the evidence out?"""
    full, part, miss = context.rules.levels
    return BoxJudge(partial(_looked, context.store), BoxRule(full=full, part=part, miss=miss))


def _looked(store: MediaStore, trajectory: Trajectory) -> Sequence[Region]:
    return regions(trajectory, StoredPixels(store))
