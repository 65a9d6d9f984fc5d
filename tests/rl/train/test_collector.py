"""A step in which no question to a judge had a verdict ends the run; one that is missing does not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.rewards.rollouts import SEARCH, answered, ran, rollout

from saccade.errors import TrainingError
from saccade.rewards.judges.verdict import JudgeVerdict, NoVerdict
from saccade.rewards.registry import load_reward
from saccade.rewards.reward import RewardGroup
from saccade.rl.generation.rollouts import GeneratedRollout
from saccade.rl.train.collector import RolloutBatch, _check_judged
from saccade.rl.train.scoring import ScoredRollout


def batch(*verdicts: JudgeVerdict) -> RolloutBatch:
    played = [rollout(ran("crop()", "a"), answered(), task=SEARCH, id=f"r{number}") for number in range(len(verdicts))]
    rewards = load_reward("codev@1:paper")(RewardGroup(tuple(played), tuple((verdict, None) for verdict in verdicts)))
    tokens: Any = None
    made = RolloutBatch()
    made.scored = {
        item.id: ScoredRollout(GeneratedRollout(item, tokens), reward)
        for item, reward in zip(played, rewards, strict=True)
    }
    return made


def test_a_step_without_any_verdict_ends_the_run() -> None:
    for reason in (NoVerdict.OUTAGE, NoVerdict.REFUSED, NoVerdict.MALFORMED):
        none = JudgeVerdict(invalid=reason)
        with pytest.raises(TrainingError, match=f"no verdict.*{reason.value}"):
            _check_judged(batch(none, none))
        _check_judged(batch(none, JudgeVerdict(score=0.5)))
    _check_judged(batch(JudgeVerdict(invalid=NoVerdict.NOT_ASKED)))
