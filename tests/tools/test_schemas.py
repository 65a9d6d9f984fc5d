"""Tools that take several calls at a time."""

from saccade.tools.registry import TOOLS, make_tool


def test_how_many_calls_one_pass_of_a_model_takes() -> None:
    batches = {name: make_tool(name).batch for name in TOOLS.names()}
    assert {name: batch for name, batch in batches.items() if batch != 1} == {
        "deplot": 4, "grounding_dino": 8, "unichart": 4,
    }  # fmt: skip
