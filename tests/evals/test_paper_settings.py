"""A paper's settings by name: what is applied, what a user keeps, and what differs from a published run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.evals.support import oracle, settings

from saccade.cli.main import main
from saccade.core.settings import load_settings, save_settings
from saccade.episode.flow import Plan
from saccade.errors import SettingsError
from saccade.evals.benchmarks import as_published, beside_published, differing
from saccade.evals.rows import read_rows
from saccade.evals.run import evaluate
from saccade.evals.settings import EvalSettings
from saccade.models.scripted import ScriptedModel
from saccade.record.codec import read_lines
from saccade.record.content import Answer, Message, ToolCall
from saccade.record.execution import Status
from saccade.record.trajectory import Trajectory
from saccade.tasks.benchmarks.registry import card_ids, load_card


def resolved(*sources: str, **more: Any) -> EvalSettings:
    given: dict[str, Any] = {"model": "m", "sources": list(sources), "published": "pyvision-rl", **more}
    return EvalSettings.model_validate(given)


def test_a_paper_s_settings_hold_where_nothing_else_was_set() -> None:
    applied = as_published(resolved("vstar"))
    settings = applied.settings
    assert (settings.sampling.temperature, settings.sampling.top_k) == (0.01, None)
    assert (settings.limits.turns, settings.limits.context_tokens) == (30, 32_768)
    assert settings.media.shown_pixels == 2_000_000
    assert (settings.k, settings.dialect) == (32, "pyvision-rl-image")
    assert applied.says == (
        "As in PyVision-RL, section 4: dialect pyvision-rl-image, temperature 0.01, turns 30, context tokens 32768, "
        "pixels shown 2000000, samples of each task 32.",
    )


def test_what_a_user_sets_wins_and_is_said() -> None:
    applied = as_published(resolved("vstar", k=1, limits={"turns": 5}, dialect="native", sampling={"top_p": 0.9}))
    settings = applied.settings
    assert (settings.k, settings.limits.turns, settings.dialect) == (1, 5, "native")
    assert (settings.sampling.temperature, settings.sampling.top_p) == (0.01, 0.9)
    assert "turns 5 as you set it (the paper: 30)" in applied.says[0]
    assert "samples of each task 1 as you set it (the paper: 32)" in applied.says[0]
    assert "dialect native as you set it (the paper: pyvision-rl-image)" in applied.says[0]


def test_a_value_that_equals_the_default_counts_as_set() -> None:
    assert as_published(resolved("vstar", k=1)).settings.k == 1


def test_nothing_changes_without_a_name_and_nothing_when_applied_again(tmp_path: Path) -> None:
    plain = resolved("vstar", published="")
    assert as_published(plain).settings is plain
    once = as_published(resolved("vstar")).settings
    save_settings(once, tmp_path / "settings.toml")
    assert as_published(load_settings(EvalSettings, tmp_path / "settings.toml")).settings == once


@pytest.mark.parametrize(
    ("sources", "name", "says"),
    [
        (("vstar",), "pyvison-rl", "no settings of that name. Did you mean 'pyvision-rl'"),
        (("tabmwp",), "pyvision-rl", "tabmwp@1 has no settings of that name. The card gives none."),
        (("vstar", "hrbench-4k"), "pyvision-rl", r"temperature differs .*vstar: 0\.01, hrbench-4k: 0\.5"),
        (("vstar", "visual-search"), "thyme", "visual-search is no benchmark"),
    ],
)
def test_what_cannot_be_applied_is_refused(sources: tuple[str, ...], name: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        as_published(resolved(*sources, published=name))


async def test_a_run_from_python_has_them_too(tmp_path: Path) -> None:
    card = tmp_path / "signs.toml"
    card.write_text(CARD, encoding="utf-8")
    data = tmp_path / "data" / "signs"
    data.mkdir(parents=True)
    (data / "rows.jsonl").write_text('{"ask": "2 + 2?", "right": 4}\n', encoding="utf-8")
    settings = resolved(str(card), published="ours", data=str(data.parent))
    made = await evaluate(settings, tmp_path / "run", player=oracle)
    assert made.progress.played == 3
    kept = load_settings(EvalSettings, tmp_path / "run" / "settings.toml")
    assert (kept.k, kept.limits.turns, kept.dialect) == (3, 2, "direct")


def test_the_command_says_which_settings_hold_and_which_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = tmp_path / "signs.toml"
    card.write_text(CARD, encoding="utf-8")
    data = tmp_path / "data" / "signs"
    data.mkdir(parents=True)
    (data / "rows.jsonl").write_text('{"ask": "2 + 2?", "right": 4}\n', encoding="utf-8")
    named = ["eval", str(card), "--data", str(data.parent), "--model", f"scripted:{tmp_path / 'model.json'}"]
    (tmp_path / "model.json").write_text('["<answer>4</answer>", "<answer>4</answer>", "<answer>4</answer>"]')
    assert main([*named, "--as", "ours", "--set", "limits.turns=1", "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr()
    assert "As in Our paper, page 2: dialect direct, turns 1 as you set it (the paper: 2)" in printed.err
    assert "Signs, published by Our paper: other settings there: turns 1 (there 2)." in printed.out
    assert "Signs, published by Another: its settings for Signs are not known here." in printed.out
    assert main([*named, "--k", "3", "--out", str(tmp_path / "run")]) == 2
    assert "published" in capsys.readouterr().err


CARD = """
id = "signs@1"
title = "Signs"
split = "test"
media = "text"
prompt = "short"
answer_type = "number"
scores = [
  { model = "A", score = 50.0, source = "Our paper, table 1" },
  { model = "B", score = 60.0, source = "Another, table 2" },
]
source = { name = "ours", url = "https://example.org", get = "nothing" }
loader = { id = "rows@1", files = ["rows.jsonl"] }
fields = { question = "ask", answer = "right" }
graders = { number = "number@1" }

[[settings]]
name = "ours"
source = "Our paper, page 2"
dialect = "direct"
turns = 2
samples = 3
"""


def test_differences_name_both_values() -> None:
    (paper,) = [known for known in load_card("vstar").settings if known.name == "thyme"]
    settings = resolved("vstar", published="", limits={"turns": 5}, dialect="thyme")
    assert differing(settings, paper) == ("temperature not set (there 0.01)", "top-k not set (there 1)")
    assert differing(as_published(resolved("vstar", published="thyme")).settings, paper) == ()


def test_every_shipped_card_can_be_played_as_its_papers_say() -> None:
    for card_id in card_ids():
        card = load_card(card_id)
        for paper in card.settings:
            users: dict[str, Any] = {} if paper.dialect else {"dialect": "native"}
            settings = as_published(resolved(card.name, published=paper.name, **users)).settings
            settings.spoken()
            assert differing(settings, paper) == ()
            said = " ".join(beside_published(settings, card))
            assert card.scores == () or said


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
