"""Our runs as logs that inspect_ai reads."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai")
from inspect_ai.log import read_eval_log
from inspect_ai.model import ContentImage
from PIL import Image

from saccade.episode.run_folder import RunFolder
from saccade.errors import RecordError, SettingsError
from saccade.plugins.integrations.inspect.parts import write_inspect_log
from saccade.record.content import Answer, Message, TextPart
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import FinishReason, Score, StopReason, Trajectory, Turn

pytestmark = [pytest.mark.faces, pytest.mark.filterwarnings("ignore")]


def run(folder: Path) -> RunFolder:
    """A run of two rollouts: one that answered, one that an outage ended."""
    made = RunFolder(folder)
    part = made.store.put_image(Image.new("RGB", (40, 30), "red"))
    task = Task(id="t", question="Which colour?", media=(NamedMedia(name="photo", part=part),), answer="red")
    prompt = (Message(role="user", parts=(part, TextPart(text="Which colour?"))),)
    turn = Turn(text="ANSWER: red", action=Answer(text="red"), finish_reason=FinishReason.STOP)
    scores = (Score(name="correct", value=1.0, detail="same"), Score(name="judge", value=None))
    fields = {"task": task, "prompt": prompt}
    made.append(
        Trajectory(id="t#0", turns=(turn,), stop=StopReason.ANSWERED, scores=scores, seconds=2.0, **fields),
        Trajectory(id="t#1", rollout=1, stop=StopReason.SANDBOX_LOST, stop_detail="it died", scores=scores, **fields),
    )
    return made


@pytest.mark.parametrize("name", ["run.eval", "run.json"])
def test_inspect_reads_what_we_played(tmp_path: Path, name: str) -> None:
    run(tmp_path / "run")
    log = read_eval_log(str(write_inspect_log(tmp_path / "run", tmp_path / "logs" / name)))
    assert (log.status, log.eval.task, log.eval.config.epochs) == ("success", "run", 2)
    assert log.samples is not None
    one, two = sorted(log.samples, key=lambda sample: sample.epoch)
    assert (one.id, one.target, one.output.completion, one.total_time) == ("t", "red", "red", 2.0)
    assert [message.role for message in one.messages] == ["user", "assistant"]
    assert isinstance(one.messages[0].content[0], ContentImage)
    assert one.scores is not None
    assert (one.scores["correct"].value, one.scores["correct"].explanation) == (1.0, "same")
    assert math.isnan(float(str(one.scores["judge"].value)))
    assert Trajectory.model_validate(one.store["saccade_trajectory"]).id == "t#0"
    assert two.error is not None
    assert "it died" in two.error.message
    assert not two.scores


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    run(tmp_path / "run")
    with pytest.raises(SettingsError, match=r"\.eval or \.json"):
        write_inspect_log(tmp_path / "run", tmp_path / "log.txt")
    (tmp_path / "log.json").write_text(json.dumps({}))
    with pytest.raises(SettingsError, match="there already"):
        write_inspect_log(tmp_path / "run", tmp_path / "log.json")
    with pytest.raises(RecordError, match="no trajectories"):
        write_inspect_log(tmp_path / "nothing", tmp_path / "log.eval")
