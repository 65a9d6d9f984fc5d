"""Groups of rollouts from their rewards."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from saccade.record.stop_facts import Broken
from saccade.rl.groups import Rollout, RolloutGroup


def group(
    name: str, rewards: Sequence[float | None], *, broken: Sequence[int] = (), lost: Sequence[int] = ()
) -> RolloutGroup:
    """Right where the reward is at least 1; rollout numbers in `broken` are over length."""
    return RolloutGroup(
        name,
        tuple(
            Rollout(
                f"{name}#{number}",
                reward,
                right=reward is not None and reward >= 1,
                broken=frozenset({Broken.OVER_LENGTH} if number in broken else ()),
                lost=number in lost,
                pictures=1,
            )
            for number, reward in enumerate(rewards)
        ),
    )


REWARD = st.one_of(st.none(), st.sampled_from([0.0, 0.1, 1.0, 1.1, 1.2]))
KINDS = st.frozensets(st.sampled_from(list(Broken)), max_size=1)


@st.composite
def groups(draw: st.DrawFn) -> list[RolloutGroup]:
    """A few groups with lost, broken and unscored rollouts."""
    made = []
    for number in range(draw(st.integers(0, 6))):
        rollouts = []
        for index in range(draw(st.integers(0, 5))):
            reward = draw(REWARD)
            rollouts.append(
                Rollout(
                    f"{number}#{index}",
                    reward,
                    right=reward is not None and reward >= 1,
                    broken=draw(KINDS),
                    lost=draw(st.booleans()),
                    pictures=draw(st.integers(0, 2)),
                )
            )
        made.append(RolloutGroup(str(number), tuple(rollouts)))
    return made
