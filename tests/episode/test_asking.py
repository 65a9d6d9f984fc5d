"""Which dialect a model is asked in, and what cannot work."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.episode.support import ANSWER, CODE, NOTHING, OK, by_hand, plan, said

from saccade.dialects.base import DIALECTS, load_dialect
from saccade.episode.ask import AskSettings, check_speaks, suited
from saccade.episode.flow import CUT, idle_detail
from saccade.errors import RegistryError, SettingsError
from saccade.models.local_text import learned_dialect, write_learned
from saccade.plugins.worlds.tiny import FOLDER
from saccade.record.trajectory import FinishReason, StopReason


@pytest.mark.parametrize(
    ("model", "dialect", "why"),
    [
        ("openai:gpt-4.1", "native", "function calls"),
        ("azure:mine@https://x/openai/v1/", "native", "function calls"),
        ("anthropic:claude-opus-4-8", "native", "function calls"),
        ("vllm:Qwen/Qwen2.5-VL-7B-Instruct@http://h:1/v1", "pyvision", "not known"),
        ("compatible:m@http://h:1/v1", "pyvision", "not known"),
        ("scripted:turns.json", "pyvision", "not known"),
        ("replay:nowhere.jsonl", "pyvision", "not known"),
        ("tiny", "tiny@1:look", "it learned"),
        (f"local:{FOLDER}", "tiny@1:look", "it learned"),
    ],
)
def test_the_one_that_suits_is_taken_and_said(model: str, dialect: str, why: str) -> None:
    settings, says = suited(AskSettings(model=model))
    assert settings.dialect == dialect
    assert len(says) == 1
    assert dialect in says[0]
    assert why in says[0]
    load_dialect(dialect)
    assert suited(settings) == (settings, ())


def test_what_is_named_stays_and_a_wrong_one_is_said() -> None:
    settings, says = suited(AskSettings(model="tiny", dialect="pyvision"))
    assert settings.dialect == "pyvision"
    assert "learned the dialect tiny@1:look" in says[0]
    assert suited(AskSettings(model="tiny", dialect="tiny:direct"))[1] == ()
    assert suited(AskSettings(model="openai:gpt-4.1", dialect="direct"))[1] == ()


def test_a_checkpoint_knows_what_it_learned_most(tmp_path: Path) -> None:
    assert learned_dialect(tmp_path) == ""
    write_learned(tmp_path, {})
    assert list(tmp_path.iterdir()) == []
    write_learned(tmp_path, {"codedance@1:paper": 3, "direct@1:reason": 2})
    assert suited(AskSettings(model=f"local:{tmp_path}"))[0].dialect == "codedance@1:paper"
    write_learned(tmp_path, {"own.py:Dialect": 3})
    with pytest.raises(RegistryError):  # what a checkpoint says is not run
        suited(AskSettings(model=f"local:{tmp_path}"))
    (tmp_path / "saccade.json").write_text("{")
    assert learned_dialect(tmp_path) == ""


@pytest.mark.parametrize(
    ("model", "dialect", "match"),
    [
        ("local:folder", "native", "none"),
        ("tiny", "native", "none"),
        ("openai:gpt-4.1", "thyme", "cannot"),
        ("compatible:m@http://h:1/v1", "thyme", "cannot"),
        ("vllm:m@http://h:1/v1", "hosted", "vllm has none"),
        ("openai:gpt-4.1", "hosted", "openai has none"),
        ("tiny", "hosted", "tiny has none"),
        ("scripted:a.json", "hosted", "scripted has none"),
        ("anthropic:claude-3-haiku-20240307", "hosted", "claude-3-haiku-20240307 cannot have that"),
        ("responses:gpt-3.5-turbo", "hosted", "cannot have that"),
        ("gemini:gemini-1.0-pro", "hosted", "cannot have that"),
    ],
)
def test_what_cannot_work_is_refused(model: str, dialect: str, match: str) -> None:
    with pytest.raises(SettingsError, match=match):
        check_speaks(model, load_dialect(dialect))


def test_all_else_is_let_through() -> None:
    for model in ("responses:gpt-5.4", "anthropic:claude-opus-4-8", "gemini:gemini-3-flash", "replay:FILE.jsonl"):
        check_speaks(model, load_dialect("hosted"))
    for name in DIALECTS.ids():
        if name.startswith("hosted"):
            continue
        check_speaks("vllm:m@http://h:1/v1", load_dialect(name))
        if not name.startswith("thyme"):
            check_speaks("openai:gpt-4.1", load_dialect(name))


def test_a_model_that_writes_prose_ends_after_a_few_turns() -> None:
    for dialect in ("pyvision", "native"):
        silent = NOTHING if dialect == "pyvision" else "<answer>"
        effects, outcome = by_hand(plan(dialect), [silent] * 4)
        assert len(effects) == 4
        assert outcome.stop is StopReason.NO_ACTION
        assert "4 turns in a row without an action (limits.idle_turns = 4)" in outcome.detail
        assert "--dialect" in outcome.detail
    assert "--dialect native (for an API with function calls) or direct." in idle_detail("pyvision@1:repo", 4)
    assert idle_detail("native@1", 4).endswith("Try --dialect direct.")


def test_an_action_in_between_begins_the_count_anew() -> None:
    _, outcome = by_hand(plan(), [*[NOTHING] * 3, CODE, OK, *[NOTHING] * 3, ANSWER])
    assert (outcome.stop, outcome.detail) == (StopReason.ANSWERED, "")
    _, outcome = by_hand(plan(), [CODE, OK, *[NOTHING] * 4])
    assert outcome.stop is StopReason.NO_ACTION
    assert "wrote 4 turns in a row" in outcome.detail


def test_turns_that_were_all_cut_off_say_so() -> None:
    cut = said(NOTHING, FinishReason.LENGTH)
    for replies, holds in (([cut] * 4, True), ([NOTHING, *[cut] * 3], False)):
        assert by_hand(plan(), replies)[1].detail.endswith(CUT) is holds


def test_the_limit_is_a_setting_and_the_papers_dialects_have_none() -> None:
    _, outcome = by_hand(plan(idle_turns=2), [NOTHING] * 2)
    assert outcome.stop is StopReason.NO_ACTION
    assert "2 turns in a row without an action (limits.idle_turns = 2)" in outcome.detail
    papers = [name for name in DIALECTS.ids() if not name.startswith(("pyvision@", "native@"))]
    assert [load_dialect(name).limits.idle_turns for name in papers] == [None] * len(papers)
    _, outcome = by_hand(plan("codedance"), [NOTHING] * load_dialect("codedance").limits.turns)  # type: ignore[operator]
    assert outcome.stop is StopReason.TURN_LIMIT
    assert "does not follow the dialect codedance" in outcome.detail
