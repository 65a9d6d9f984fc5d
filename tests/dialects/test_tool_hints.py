from __future__ import annotations

import pytest

from saccade.dialects.registry import load_dialect
from saccade.dialects.tool_hints import FAMILIES, hint_lines
from saccade.episode.settings import PromptSettings
from saccade.errors import SettingsError
from saccade.models.base import ToolSpec
from saccade.tools.registry import TOOLS, tool_class

from .cases import task


def system(**settings: object) -> str:
    dialect, _ = PromptSettings.model_validate(settings).equipped(load_dialect("vista"))
    return dialect.open(task()).messages[0].text


def test_hints_name_tools_on_offer_alone() -> None:
    plain, hinted = system(tools=("contours", "ocr")), system(tools=("contours", "ocr"), tool_hints=True)
    assert hinted.startswith(plain)
    lines = hinted.removeprefix(plain).splitlines()
    assert lines[-2:] == ["- tables, forms and other print: ocr", "- counting: contours"]
    assert sum(line.startswith("- ") for line in lines) == 2


def test_tools_of_a_family_come_in_the_order_to_try_them() -> None:
    lines = hint_lines([ToolSpec(name, "", {}) for name in TOOLS.names()])
    assert [line[2:].partition(":")[0] for line in lines] == list(FAMILIES)
    assert lines[0] == "- charts: chartocr, chartmoe, deplot, unichart, chartdet, opencv, chartassistant, chartvlm"
    assert hint_lines(()) == ()


def test_two_tools_of_a_family_have_two_places() -> None:
    places = [place for name in TOOLS.names() if (kind := tool_class(name)) for place in kind.suits]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("name", ["codedance", "native", "direct:think", "tiny:tools"])
def test_a_dialect_without_a_list_takes_no_hints(name: str) -> None:
    with pytest.raises(SettingsError, match="Leave out tool_hints"):
        PromptSettings(tool_hints=True).equipped(load_dialect(name))


def test_nothing_known_is_refused() -> None:
    with pytest.raises(SettingsError, match="nothing is known"):
        system(tools=("match_template",), tool_hints=True)
