"""Groups of rollouts from their rewards: real trajectories in which every fact that selections read is set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from tests.rewards.rollouts import answered, ran
from tests.rewards.rollouts import rollout as trajectory

from saccade.record.execution import Status
from saccade.record.trajectory import Broken, Score, StopReason
from saccade.rewards.reward import Reward
from saccade.training.rl.rollout import Rollout, RolloutGroup

_STOPS = {
    Broken.OVER_LENGTH: StopReason.CONTEXT_LIMIT,
    Broken.OVER_IMAGES: StopReason.IMAGE_LIMIT,
    Broken.TIMEOUT: StopReason.WALL_LIMIT,
    Broken.NO_ACTION: StopReason.NO_ACTION,
}
_STATUSES = {Broken.EXECUTION_ERROR: Status.ERROR, Broken.RUNTIME_DEATH: Status.KILLED}


def rollout(
    name: str, reward: float | None, *, broken: Broken | None = None, lost: bool = False, pictures: int = 1
) -> Rollout:
    """Right where the reward is at least 1; its one call gave `pictures`."""
    call = ran("look()", *map(str, range(pictures)), status=_STATUSES.get(broken, Status.OK))  # type: ignore[arg-type]
    stop = StopReason.SANDBOX_LOST if lost else _STOPS.get(broken, StopReason.ANSWERED)  # type: ignore[arg-type]
    right = float(reward is not None and reward >= 1)
    played = trajectory(call, answered(), correct=right, id=name, stop=stop)
    return Rollout(played, reward=Reward(parts=(Score(name="x", value=reward),)))


def renamed(item: Rollout, name: str) -> Rollout:
    return replace(item, trajectory=item.trajectory.model_copy(update={"id": name}))


def group(
    name: str, rewards: Sequence[float | None], *, broken: Sequence[int] = (), lost: Sequence[int] = (), **more: Any
) -> RolloutGroup:
    """Rollout numbers in `broken` are over length."""
    return RolloutGroup(
        name,
        tuple(
            rollout(
                f"{name}#{number}",
                reward,
                broken=Broken.OVER_LENGTH if number in broken else None,
                lost=number in lost,
                **more,
            )
            for number, reward in enumerate(rewards)
        ),
    )


REWARD = st.one_of(st.none(), st.sampled_from([0.0, 0.1, 1.0, 1.1, 1.2]))
KINDS = st.one_of(st.none(), st.sampled_from(list(Broken)))


@st.composite
def groups(draw: st.DrawFn) -> list[RolloutGroup]:
    """A few groups with lost, broken and unscored rollouts."""
    made = []
    for number in range(draw(st.integers(0, 6))):
        rollouts = [
            rollout(
                f"{number}#{index}",
                draw(REWARD),
                broken=draw(KINDS),
                lost=draw(st.booleans()),
                pictures=draw(st.integers(0, 2)),
            )
            for index in range(draw(st.integers(0, 5)))
        ]
        made.append(RolloutGroup(str(number), tuple(rollouts)))
    return made
