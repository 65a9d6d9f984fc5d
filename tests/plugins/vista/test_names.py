"""The 26 names of the paper: each has a tool, with arguments that it takes; and no name means two tools."""

from __future__ import annotations

from collections import Counter

import pytest

from saccade.plugins.vista.names import VISTA_TOOLS
from saccade.tools.definition import NamedTool
from saccade.tools.registry import TOOLS, aliases, make_tool
from saccade.tools.toolbox import Toolbox


def test_there_are_26_and_no_two_are_one() -> None:
    assert len(VISTA_TOOLS) == 26
    assert len({(item.tool, *item.given.items()) for item in VISTA_TOOLS}) == 26
    assert len({(item.family, item.name) for item in VISTA_TOOLS}) == 26


@pytest.mark.parametrize("item", VISTA_TOOLS, ids=lambda item: f"{item.family}: {item.name}")
def test_each_has_a_tool_that_takes_what_is_given(item: NamedTool) -> None:
    tool = make_tool(item.tool)
    assert tool.name == item.tool
    properties = tool.definition.parameters["properties"]
    assert isinstance(properties, dict)
    for name, value in item.given.items():
        argument = properties[name]
        assert isinstance(argument, dict)
        assert value in str(argument)
        sample = {name: value, "question": "?"} if "question" in properties else {name: value}
        assert tool.mistakes(sample) == ()


def test_a_name_or_an_alias_means_one_tool() -> None:
    names = list(TOOLS.names())
    said = [*names, *(alias.name for name in names for alias in make_tool(name).aliases)]
    assert [name for name, count in Counter(said).items() if count > 1] == []
    assert {alias.name: name for name in names for alias in make_tool(name).aliases} == dict(aliases())
    assert not set(aliases()) & set(names)
    box = Toolbox.of()
    assert all(box.resolve(name) == aliases().get(name, name) for name in said)
