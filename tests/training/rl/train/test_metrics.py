"""A kept rollout tells what each of its turns was worth: CodeDance's two levels, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.rewards.rollouts import answered, ran, rollout

from saccade.episode.run_folder import TRAJECTORIES
from saccade.record.codec import read_lines, write_lines
from saccade.record.execution import Status
from saccade.record.trajectory import Trajectory, total
from saccade.rewards.registry import load_reward
from saccade.rewards.reward import RewardGroup
from saccade.training.rl.advantages import TurnLevel
from saccade.training.rl.metrics import ADVANTAGE, open_rollout_store, with_worth
from saccade.training.rl.rollout import Rollout, group_of, per_token
from saccade.training.rl.select import KeepAll


def test_the_parts_of_reward_and_advantage_are_on_the_rollout() -> None:
    good = rollout(ran("a", "a"), answered(), id="good")
    bad = rollout(ran("b", status=Status.ERROR), ran("c", "c"), answered("blue"), correct=0.0, id="bad")
    rewards = load_reward("codedance@1:paper")(RewardGroup((good, bad)))
    scored = [Rollout(item, reward=reward) for item, reward in zip((good, bad), rewards, strict=True)]
    found = {item.id: item for item in TurnLevel()(KeepAll()([group_of(scored)]))}
    kept = {name: with_worth(item) for name, item in found.items()}

    scores = {score.name: score for score in kept["bad"].scores}
    assert total(kept["bad"].scores) == pytest.approx(rewards[1].total)
    assert (scores["correct"].value, scores["correct"].weight) == (0.0, 0.0)
    assert scores["reward.returns.turns"].detail == "turn 1: -0.5, turn 2: +0, turn 3: none"
    # Of the returns 0, -0.5 and 0 the mean is -1/6 and the deviation 0.2357: z = -1.4142 and 0.7071, times 0.2.
    assert scores[ADVANTAGE].value == pytest.approx(-0.7071, abs=1e-4)
    assert scores[ADVANTAGE].detail == "turn 1: -0.9899, turn 2: -0.5657, turn 3: -0.7071"
    advantage = found["bad"].advantage
    tokens = per_token(advantage.sequence, np.array([0, -1, 1, 2]), advantage.turns)
    assert tokens.round(4).tolist() == [-0.9899, 0.0, -0.5657, -0.7071]
    assert {score.name: score for score in kept["good"].scores}[ADVANTAGE].detail == "turn 1: +0.8485, turn 2: +0.7071"


def test_what_was_not_trained_on_has_no_advantage_and_a_sequence_alone_no_turns() -> None:
    item = rollout(ran("a", "a"), answered())
    [reward] = load_reward("pyvision-rl@1:paper")(RewardGroup((item,)))
    scored = Rollout(item, reward=reward)
    assert ADVANTAGE not in {score.name for score in with_worth(scored).scores}
    plain = with_worth(scored.with_advantage(0.25)).scores[-1]
    assert (plain.name, plain.value, plain.detail) == (ADVANTAGE, 0.25, "")


def test_a_resumed_run_keeps_what_came_before_the_cursor_and_no_torn_line(tmp_path: Path) -> None:
    before, after = (rollout(answered(), id=f"r{place}").model_copy(update={"group": f"t@{place}"}) for place in (1, 2))
    file = tmp_path / TRAJECTORIES
    write_lines(file, [after, before])
    with file.open("ab") as lines:
        lines.write(b'{"schema_version":1,"id":"r3","gro')
    assert "r1" in open_rollout_store(tmp_path, cursor=2)
    assert list(read_lines(file, Trajectory)) == [before]
