"""Which typed tools an episode offers: those that lack nothing here, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.dialects.base import ToolDialect
from saccade.dialects.registry import load_dialect
from saccade.episode.equip import equipped, missing_words
from saccade.errors import SettingsError
from saccade.tools.context import ToolContext
from saccade.tools.problem import ProblemKind
from saccade.tools.setup import VARIABLE


def test_what_is_not_set_up_is_not_offered_and_no_mistake_of_the_model() -> None:
    dialect, tools = equipped(load_dialect("vista"))
    assert isinstance(dialect, ToolDialect)
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
    assert isinstance(dialect, ToolDialect)
    assert "gllava" in {tool.name for tool in dialect.tools}
    assert "gllava" not in missing_words(tools)


def test_a_tool_that_is_named_must_be_there() -> None:
    with pytest.raises(SettingsError, match=r"not available here.*sam \(.*\[sam\] weights = "):
        equipped(load_dialect("vista"), ("crop", "sam"))


def test_of_a_choice_of_tools_nothing_is_said() -> None:
    _, tools = equipped(load_dialect("vista"), ("crop",))
    assert missing_words(tools) == ""
    assert missing_words(None) == ""
