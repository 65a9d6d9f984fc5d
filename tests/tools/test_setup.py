"""The file that says where tools find their weights: what no tool reads is said, and what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from saccade.errors import SettingsError
from saccade.tools.registry import _warn
from saccade.tools.setup import VARIABLE, SetupEntry, tool_setup
from saccade.tools.toolbox import Toolbox


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
