import pytest

from saccade.dialects.registry import load_dialect
from saccade.dialects.tool_list import listing
from saccade.episode.equip import equipped
from saccade.errors import SettingsError
from saccade.tools.toolbox import Toolbox

from .cases import task


def system(name: str, form: str = "") -> str:
    dialect, _ = equipped(listing(load_dialect(name), form))  # type: ignore[arg-type]
    return dialect.open(task()).messages[0].text


def test_a_list_of_lines_is_far_shorter_than_schemas() -> None:
    short, schema = system("vista"), system("vista", "schema")
    box = Toolbox.of()
    names = {tool.name for tool in box.definitions} - set(box.missing())
    assert len(names) > 20
    assert all(f"- {name}(" in short for name in names)
    assert len(short) <= len(schema) / 8
    assert '"additionalProperties"' in schema


def test_a_line_names_what_a_tool_takes() -> None:
    assert (
        "- crop(box, image?, units?=pixels|normalized, scale?, min_side?): "
        "Cut a box out of an image as a new image, enlarged `scale` times.\n"
    ) in system("vista")


def test_deepeyes_lists_its_published_schema_or_a_line() -> None:
    assert '{"type": "function", "function": {"name": "image_zoom_in_tool"' in system("deepeyes")
    assert "- image_zoom_in_tool(bbox_2d, label?): Cuts a box" in system("deepeyes", "short")


def test_a_dialect_without_a_list_refuses_a_form_of_it() -> None:
    with pytest.raises(SettingsError, match="pyvision@1:repo has no list of tools"):
        listing(load_dialect("pyvision"), "short")
