"""Names: lookups, aliases, suggestions, and a registry that agrees with the tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.errors import RegistryError, SettingsError, ToolError
from saccade.record.execution import Status
from saccade.tools.context import ProblemKind, ToolContext
from saccade.tools.pictures import Crop
from saccade.tools.registry import TOOLS, _warn, aliases, make_tool
from saccade.tools.setup import VARIABLE, SetupEntry, tool_setup
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
        "from saccade.tools.pictures import Crop\nfrom saccade.tools.base import Tool\n"
        "class Asking(Crop):\n    def __init__(self, key): pass\n"
        "class Bare(Tool):\n    name = description = 'bare'\n    def run(self, arguments, context): pass\n"
    )
    said = r"own\.py:Asking cannot be made with no arguments: .*key.*\. A tool has a method `run`, and every .*\.$"
    with pytest.raises(ToolError, match=said):
        make_tool(f"{file}:Asking")
    with pytest.raises(ToolError, match=r"is a tool without arguments, result: give the class these attributes\.$"):
        make_tool(f"{file}:Bare")


def test_how_many_calls_one_pass_of_a_model_takes() -> None:
    batches = {name: make_tool(name).batch for name in TOOLS.names()}
    assert {name: batch for name, batch in batches.items() if batch != 1} == {
        "deplot": 4, "grounding_dino": 8, "sam": 8, "unichart": 4,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("table", "says"),
    [("sam2", "Its table is [sam]."), ("grounding-dino", "Did you mean 'grounding_dino'?"), ("sam", "")],
)
def test_a_table_that_no_registered_tool_reads_is_said_once(
    table: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "setup.toml"
    file.write_text(f'[{table}]\nweights = "here"\n')
    monkeypatch.setenv(VARIABLE, str(file))
    _warn.cache_clear()
    assert tool_setup(table).weights == "here"
    Toolbox.of("crop")
    Toolbox.of("rotate")
    expected = f"the setup that {VARIABLE} names has a table [{table}], but no tool is registered so. {says}"
    assert caplog.messages == ([expected] if says else [])


@pytest.mark.parametrize("weights", ["/no/such/folder", "./missing", "~/nobody/has/this", "weights/sam/vit"])
def test_a_folder_that_is_not_there_is_none(weights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "setup.toml"
    monkeypatch.setenv(VARIABLE, str(file))
    entry = SetupEntry("sam", "weights", "facebook/sam2.1-hiera-tiny")
    file.write_text(f'[sam]\nweights = "{weights}"\n')
    assert not entry.named
    assert entry.todo == f"there is no folder {weights}: correct [sam] weights in the file that {VARIABLE} names"


@pytest.mark.parametrize("weights", ["facebook/sam2.1-hiera-tiny", "{folder}"])
def test_a_folder_and_a_name_of_the_hub_are_taken(
    weights: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "setup.toml"
    monkeypatch.setenv(VARIABLE, str(file))
    file.write_text(f'[sam]\nweights = "{weights.format(folder=tmp_path)}"\n')
    assert SetupEntry("sam", "weights", "").named


@pytest.mark.parametrize("written", ["[sam", '[sam]\nweigths = "x"\n', "[sam]\nseconds = 0\n", None])
def test_a_file_that_is_no_setup_is_refused_by_its_name(
    written: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "setup.toml"
    monkeypatch.setenv(VARIABLE, str(file))
    if written is None:
        why = f"{VARIABLE} names {file}, which cannot be read: .*No such file.* Name a TOML file"
    else:
        file.write_text(written)
        why = f"{file}, which {VARIABLE} names, is no setup of tools: "
    with pytest.raises(SettingsError, match=why):
        tool_setup("sam")
