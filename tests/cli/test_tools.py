"""`saccade tools list`: the 26, their state, and how to have what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from saccade.cli.main import main
from saccade.tools.setup import VARIABLE


def test_the_26_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [bool(item["paper"]) for item in listed] == [True] * 26 + [False] * (len(listed) - 26)
    by_name = {item["tool"]: item for item in listed}
    assert by_name["crop"]["state"] == "ready"
    assert by_name["opencv"]["state"] == "ready"
    assert (by_name["sam"]["state"], by_name["sam"]["cost"]) == ("unavailable", "heavy")
    assert VARIABLE in by_name["sam"]["remedy"]
    assert by_name["chartmoe"]["state"] == "unavailable"


def test_what_the_setup_names_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "setup.toml").write_text('[chartmoe]\nmodel = "compatible:x@http://localhost:1/v1"\n')
    monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
    assert main(["tools", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("ChartMoE.answer" in line and "chartmoe task=answer" in line and " ready " in line for line in lines)
    assert any(line.startswith("  gllava: write [gllava] model = ") for line in lines)
    assert not any(line.startswith("  chartmoe:") for line in lines)


@pytest.mark.parametrize("text", ["[sam]\nwieghts = 'x'\n", "[sam\n", "sam = 3\n"])
def test_a_wrong_setup_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "setup.toml").write_text(text)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
    assert main(["tools", "list"]) == 2
    assert VARIABLE in capsys.readouterr().err
