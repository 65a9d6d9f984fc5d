"""The same task with tools and thoughts, with one of them, and with neither: what is offered, said and kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from saccade.episode.flow import Plan
from saccade.errors import SettingsError
from saccade.evals.rows import read_rows
from saccade.evals.run import evaluate
from saccade.models.scripted import ScriptedModel
from saccade.record.codec import read_lines
from saccade.record.content import Answer, Message, ToolCall
from saccade.record.execution import Status
from saccade.record.trajectory import Trajectory

from .support import settings

LOOK = ToolCall(name="crop", arguments={"image": "image_0", "box": [0, 0, 40, 40]})


@dataclass
class Looker:
    """Crops first where there are tools, thinks where it may, and then answers."""

    prompts: list[str] = field(default_factory=list)

    def __call__(self, plan: Plan) -> ScriptedModel:
        dialect = plan.dialect
        said = [dialect.write(Answer(text=str(plan.task.answer)), "I see it." if thinks(dialect.id) else "")]
        if dialect.id.startswith("vista"):
            said.insert(0, dialect.write(LOOK, "Let me look." if thinks(dialect.id) else ""))

        def reply(messages: tuple[Message, ...]) -> str:
            self.prompts.append("".join(message.text for message in messages[:2]))
            return said.pop(0)

        return ScriptedModel(reply)


def thinks(dialect: str) -> bool:
    return not dialect.endswith(("tools-only", "short"))


@pytest.mark.parametrize(
    ("dialect", "turns"), [("vista", 2), ("vista:tools-only", 2), ("direct", 1), ("direct:short", 1)]
)
async def test_each_setting_offers_and_keeps_what_it_says(dialect: str, turns: int, tmp_path: Path) -> None:
    looker = Looker()
    tools = ("crop", "ocr") if turns == 2 else ()
    made = await evaluate(settings("circled-letter", n=2, dialect=dialect, tools=tools), tmp_path, player=looker)
    assert (made.summary.total.avg, made.summary.turns, made.summary.calls) == (1.0, turns, turns - 1)
    assert all(("crop" in prompt) is (turns == 2) for prompt in looker.prompts)
    assert {row.stop for row in read_rows(tmp_path)} == {"answered"}
    for trajectory in read_lines(tmp_path / "trajectories.jsonl", Trajectory):
        text = "".join(turn.text for turn in trajectory.turns)
        assert ("I see it." in text) is thinks(dialect)
        for turn in trajectory.turns[:-1]:
            assert turn.execution is not None
            assert (turn.execution.status, len(turn.execution.pictures)) == (Status.OK, 1)
            assert turn.observation is not None
            assert len(turn.observation.media) == 1


async def test_tools_where_none_can_be_offered_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="offers no typed tools"):
        await evaluate(settings("circled-letter", n=1, tools=("crop",)), tmp_path / "run", player=Looker())
    assert not (tmp_path / "run").exists()
