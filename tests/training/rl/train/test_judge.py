"""A step of training whose judge hangs ends within the judge's limits, and says what to do."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.models.wire_server import WireServer, chat, slow
from tests.training.rl.policies import Talkative
from tests.training.rl.train.support import metrics, rl_settings

from saccade.errors import TrainingError
from saccade.record.content import Action, Answer
from saccade.record.trajectory import FinishReason
from saccade.training.rl.run import train
from saccade.training.rl.settings import RlSettings

HANGS = 120
"""Seconds after which the run counts as held up by its judge."""


class Unsure(Talkative):
    """Any text is the same answer, in which the rule sees no right one."""

    def parse(self, text: str, finish: FinishReason) -> Action:
        return Answer(text="no idea")


def judged(server: WireServer, tiny: Path, tasks: Path, seconds: float) -> RlSettings:
    reward = {
        "preset": "pyvision-rl@1:paper",
        "answer_judge": f"compatible:judge@{server.url}/v1",
        "open_tags": ["*"],
        "judge_rules": {"seconds": seconds, "outages": 2, "concurrent": 1},
    }
    return rl_settings(tiny, tasks, recipe={"steps": 1, "reward": reward})


@pytest.mark.slow
def test_a_judge_that_hangs_ends_the_run_which_is_resumed_with_more_time(
    server: WireServer, tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.training.rl.run.load_dialect", lambda name: Unsure())
    server.will(slow(server))
    began = time.monotonic()
    with pytest.raises(TrainingError, match=r"the judge gave no verdict \(outage\).*--resume"):
        train(judged(server, tiny, tasks, 2), tmp_path / "run")
    assert time.monotonic() - began < HANGS
    assert len(server.bodies) == 2
    server.will(chat('{"score": 1}'))
    train(judged(server, tiny, tasks, 60), tmp_path / "run", resume=True)
    assert [line["step"] for line in metrics(tmp_path / "run")] == [1]
