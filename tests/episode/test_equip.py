"""Which typed tools an episode offers: those that lack nothing here, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.dialects.prompt_texts import SYSTEM, Prompts
from saccade.dialects.registry import load_dialect
from saccade.episode.equip import equipped, missing_words
from saccade.errors import SettingsError
from saccade.record.task import Task
from saccade.tools.context import ToolContext
from saccade.tools.problem import ProblemKind
from saccade.tools.setup import VARIABLE


def test_what_is_not_set_up_is_not_offered_and_no_mistake_of_the_model() -> None:
    dialect, tools = equipped(load_dialect("vista"))
    assert tools is not None
    offered = {tool.name for tool in dialect.tools}
    assert {"crop", "opencv", "inter_gps"} <= offered
    assert not offered & {"sam", "grounding_dino", "chartmoe", "multimath"}
    assert "sam" in missing_words(tools)
    for name in ("sam", "sam2", "chartmoe.answer"):
        result = tools.call(name, {"whatever": 1}, ToolContext({}))
        assert result.problem is not None
        assert result.problem.kind is ProblemKind.UNAVAILABLE
        assert result.problem.kind.vista is None
        assert VARIABLE in result.problem.detail


def test_a_setup_puts_a_tool_on_offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "setup.toml").write_text('[gllava]\nmodel = "compatible:x@http://localhost:1/v1"\n')
    monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
    dialect, tools = equipped(load_dialect("vista"))
    assert "gllava" in {tool.name for tool in dialect.tools}
    assert "gllava" not in missing_words(tools)


def test_a_tool_that_is_named_must_be_there() -> None:
    with pytest.raises(SettingsError, match=r"not available here.*sam \(.*\[sam\] weights = "):
        equipped(load_dialect("vista"), ("crop", "sam"))


def test_an_own_system_message_must_list_the_tools_that_are_named() -> None:
    vista = load_dialect("vista")
    silent, listing = (vista.with_prompts(Prompts({SYSTEM: text}, "mine.txt")) for text in ("Look.", "Use {tools}."))
    with pytest.raises(SettingsError, match=r"the system message of mine\.txt has no \{tools\}"):
        equipped(silent, ("crop",))
    equipped(silent)  # nobody named any
    dialect, _ = equipped(listing, ("crop",))
    assert "Use - crop(" in dialect.open(Task(id="t", question="?")).messages[0].text
    native = load_dialect("native")  # it hands its tools over beside the prompt
    equipped(native.with_prompts(Prompts({SYSTEM: "Look."}, "mine.txt")), ("crop",))


def test_of_a_choice_of_tools_nothing_is_said() -> None:
    _, tools = equipped(load_dialect("vista"), ("crop",))
    assert missing_words(tools) == ""
    assert missing_words(None) == ""
