"""Names: lookups, aliases, suggestions, and a registry that agrees with the tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.errors import RegistryError, ToolError
from saccade.record.execution import Status
from saccade.tools.context import ProblemKind, ToolContext
from saccade.tools.crop import Crop
from saccade.tools.registry import TOOLS, aliases, make_tool
from saccade.tools.toolbox import Toolbox

NAMES = sorted(entry.partition("@")[0] for entry in TOOLS.ids())


@pytest.mark.parametrize("name", NAMES)
def test_every_registered_tool_is_one(name: str) -> None:
    tool = make_tool(name)
    definition = tool.definition
    assert definition.name == name
    assert definition.description.endswith(".")
    assert "\n" not in definition.description
    assert definition.parameters["additionalProperties"] is False
    assert definition.returns["additionalProperties"] is False
    assert {alias.name for alias in tool.aliases} == {alias for alias, own in aliases().items() if own == name}
    for alias in tool.aliases:
        targets = {*alias.rename.values(), *alias.given}
        assert targets <= tool.arguments.model_fields.keys()


def test_lookups_suggest() -> None:
    with pytest.raises(RegistryError, match="Did you mean 'crop'"):
        make_tool("crpo")
    assert isinstance(make_tool("zoom_in"), Crop)
    assert isinstance(make_tool("crop@1"), Crop)


def test_calls_by_name_and_alias(context: ToolContext) -> None:
    box = Toolbox.of("crop", "rotate")
    assert box.resolve("crop_image_normalized") == "crop"
    result = box.call("crop_image_normalized", {"bbox_2d": [0, 0, 0.5, 0.5]}, context)
    assert result.tool == "crop"
    assert result.pictures[0].image.size == (50, 30)
    assert [each.name for each in box.definitions] == ["crop", "rotate"]


@pytest.mark.parametrize("name", ["corp", "", "\ud800", "x" * 10_000])
def test_an_unknown_name_is_a_result(context: ToolContext, name: str) -> None:
    result = Toolbox.of("crop").call(name, {}, context)
    assert result.status is Status.ERROR
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.SCHEMA
    assert "crop" in result.text
    assert ("Did you mean 'crop'" in result.text) is (name == "corp")
    assert ("Known: crop," in result.text) is (name != "corp")
    assert len(result.text.encode()) < 400
    assert len(result.text.partition("named ")[2].partition(". ")[0]) <= len("''") + 60


async def test_a_call_that_is_awaited_is_the_same_call(context: ToolContext) -> None:
    box = Toolbox.of("crop")
    given: dict[str, dict[str, object]] = {
        "crop": {"box": [0, 0, 9, 9]},
        "zoom_in": {"bbox_2d": [0, 0, 9, 9]},
        "corp": {},
    }
    for name, arguments in given.items():
        there, here = await box.call_async(name, arguments, context), box.call(name, arguments, context)
        assert (there.status, there.value, there.text) == (here.status, here.value, here.text)


def test_far_from_every_name_all_tools_are_named(context: ToolContext) -> None:
    assert Toolbox.of().call("zzzz", {}, context).text.endswith(f"Known: {', '.join(NAMES)}.")


def test_registered_tools_that_lack_weights_are_unavailable(context: ToolContext) -> None:
    result = Toolbox.of("crop").call("groundingdino", {"caption": "a cup"}, context)
    assert result.tool == "grounding_dino"
    assert result.status is Status.REFUSED
    assert result.value is None
    assert result.problem is not None
    assert result.problem.kind is ProblemKind.UNAVAILABLE


def test_two_tools_may_not_share_an_alias() -> None:
    class Other(Crop):
        name = "other"

    with pytest.raises(ToolError, match="names both"):
        Toolbox([Crop(), Other()])


def test_two_tools_may_not_share_a_name() -> None:
    with pytest.raises(ToolError, match="two tools are called crop: offer one of the two"):
        Toolbox([Crop(), Crop()])


def test_none_means_all() -> None:
    assert [each.name for each in Toolbox.of().definitions] == NAMES


def test_a_tool_that_cannot_be_made(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "from saccade.tools.crop import Crop\nfrom saccade.tools.base import Tool\n"
        "class Asking(Crop):\n    def __init__(self, key): pass\n"
        "class Bare(Tool):\n    name = description = 'bare'\n    def run(self, arguments, context): pass\n"
    )
    said = r"own\.py:Asking cannot be made with no arguments: .*key.*\. A tool has a method `run`, and every .*\.$"
    with pytest.raises(ToolError, match=said):
        make_tool(f"{file}:Asking")
    with pytest.raises(ToolError, match=r"is a tool without arguments, result: give the class these attributes\.$"):
        make_tool(f"{file}:Bare")
