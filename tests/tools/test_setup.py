"""The file that says where tools find their weights: what no tool reads is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.tools.setup import VARIABLE, tool_setup


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
    assert tool_setup(table).weights == "here"
    tool_setup("deplot")
    expected = f"{file} has a table [{table}], but no registered tool has that name. {says}"
    assert caplog.messages == ([expected] if says else [])
