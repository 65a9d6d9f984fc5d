from __future__ import annotations

import pytest
from tests.rewards.rollouts import answered, lost, ran, rollout, wrote
from tests.training.rl.support import group

from saccade.errors import TrainingError
from saccade.record.execution import Status
from saccade.record.trajectory import Broken, Score, StopReason
from saccade.rewards.reward import Reward
from saccade.training.rl.rollout import Rollout, broken, group_of, spread


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Status.TIMEOUT, Broken.TIMEOUT),
        (Status.KILLED, Broken.RUNTIME_DEATH),
        (Status.OUT_OF_MEMORY, Broken.RUNTIME_DEATH),
        (Status.ERROR, Broken.EXECUTION_ERROR),
        (Status.REFUSED, Broken.EXECUTION_ERROR),
    ],
)
def test_broken_kinds(status: Status, kind: Broken) -> None:
    assert broken(rollout(ran(status=status), answered())) == {kind}


def test_limits_and_no_action_break_but_the_turn_limit_does_not() -> None:
    assert broken(rollout(ran())) == frozenset()
    assert broken(rollout(ran(), stop=StopReason.CONTEXT_LIMIT)) == {Broken.OVER_LENGTH}
    assert broken(rollout(ran(), stop=StopReason.IMAGE_LIMIT)) == {Broken.OVER_IMAGES}
    assert broken(rollout(wrote("Hm."))) == {Broken.NO_ACTION}


def test_a_lost_rollout_is_lost_and_not_broken() -> None:
    made = Rollout(lost(ran(status=Status.LOST)), reward=Reward(parts=(Score(name="accuracy"),)))
    assert made.lost
    assert not made.usable
    assert made.broken == frozenset()


def test_group_of_trajectories() -> None:
    trajectories = [rollout(ran("a", "a"), answered(), id=f"t#{n}", correct=n, group="t") for n in (0, 1)]
    rewards = [Reward(parts=(Score(name="accuracy", value=float(n)),)) for n in (0, 1)]
    made = group_of([Rollout(item, reward=reward) for item, reward in zip(trajectories, rewards, strict=True)])
    assert made.id == "t"
    assert [item.reward.total for item in made.rollouts] == [0, 1]
    assert [item.right for item in made.rollouts] == [False, True]
    assert [item.pictures for item in made.rollouts] == [1, 1]
    assert made.pass_rate == 0.5
    other = trajectories[0].model_copy(update={"group": "u"})
    with pytest.raises(TrainingError, match="one name"):
        group_of([Rollout(trajectories[1]), Rollout(other)])


def test_spread_has_one_degree_of_freedom_and_leaves_out_what_is_not_usable() -> None:
    assert spread(group("a", [0, 1]).rollouts) == pytest.approx(0.70710678)
    assert spread(group("a", [0, 1, 1, None, 5], lost=[4]).rollouts) == pytest.approx(0.57735027)
    assert spread(group("a", [3]).rollouts) == 0


def test_ids_are_unique() -> None:
    one = group("a", [0.0]).rollouts[0]
    with pytest.raises(ValueError, match="share an id"):
        group("a", [0.0]).__class__("a", (one, one))
