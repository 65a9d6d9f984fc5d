"""Trajectories with the prompt of a file: their first messages change, and nothing else."""

from pathlib import Path

import pytest

from saccade.dialects.registry import load_dialect
from saccade.episode.settings import PromptSettings
from saccade.errors import TrainingError
from saccade.record.action import Answer
from saccade.record.content import ImagePart
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Provenance, Trajectory
from saccade.record.turn import Turn
from saccade.sft.train.reprompted import reprompting

PHOTO = ImagePart(sha256="1" * 64, width=640, height=480, mime="image/png")


def played(dialect: str, shown: ImagePart = PHOTO) -> Trajectory:
    task = Task(id="t", question="What is it?", media=(NamedMedia(name="photo", part=PHOTO),))
    asked = task.model_copy(update={"media": (NamedMedia(name="photo", part=shown),)})
    prompt = load_dialect(dialect or "direct").open(asked).messages
    turn = Turn(text="<answer>a sign</answer>", action=Answer(text="a sign"))
    return Trajectory(id="t#0", task=task, prompt=prompt, turns=(turn,), provenance=Provenance(dialect=dialect))


@pytest.mark.parametrize("dialect", ["direct@1:reason", "thyme@1", "deepeyes@1", "vista@1", "pyvision@1:repo"])
def test_only_the_first_messages_change(dialect: str, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("System prompt:\nRules.\nUser prompt:\nMine: {query}")
    before = played(dialect)
    after = reprompting(PromptSettings(prompt_file=str(tmp_path / "mine.txt")))(before)
    assert after.prompt[0].text == "Rules."
    assert "Mine: What is it?" in after.prompt[1].text
    assert after.model_copy(update={"prompt": before.prompt}) == before
    assert reprompting(PromptSettings())(before) is before


def test_what_cannot_be_said_anew_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("{query}")
    reprompt = reprompting(PromptSettings(prompt_file=str(tmp_path / "mine.txt")))
    small = PHOTO.model_copy(update={"sha256": "2" * 64})
    for trajectory, said in (
        (played(""), "names no dialect"),
        (played("direct@1:reason", small), "showed its pictures otherwise"),
    ):
        with pytest.raises(TrainingError, match=said):
            reprompt(trajectory)
