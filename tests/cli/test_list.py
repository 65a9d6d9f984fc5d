"""`saccade list`: every kind, a line for each part, what is broken or missing said and not raised."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from saccade.cli import list as listing
from saccade.cli.list import KINDS, parts_of
from saccade.cli.main import main
from saccade.core import registry as module
from saccade.core.registry import Registry


def test_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n{kind} " in f"\n{printed}" for kind in KINDS)
    assert main(["list", "--json"]) == 0
    assert [item["kind"] for item in json.loads(capsys.readouterr().out)] == [*KINDS, "recipes"]


@pytest.mark.parametrize("kind", [*KINDS, "recipes"])
def test_every_part_says_what_it_is(kind: str) -> None:
    parts = list(parts_of(kind))
    assert parts
    for part in parts:
        assert part.source == "built in"
        assert part.problem == ""
        assert 4 < len(part.description) < 250, part
        assert "\n" not in str(part)
    assert len({part.id for part in parts}) == len(parts)


def test_lines_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "rewards"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("codedance@1 "))
    assert "built in  Compute CodeDance's reward" in line
    assert line.endswith("Presets: paper, paper-math, repo, repo-math.")
    assert main(["list", "graders", "--json"]) == 0
    found = {item["id"]: item for item in json.loads(capsys.readouterr().out)}
    assert "tolerance=0.05" in found["relaxed@1"]["description"]
    assert main(["list", "tolls"]) == 2
    assert "Did you mean 'tools'" in capsys.readouterr().err


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def version(package: str) -> str:
        asked.append(package)
        raise listing.PackageNotFoundError(package)

    monkeypatch.setattr(listing, "version", version)
    parts = {part.id: part.needs for part in parts_of("models")}
    assert parts["local@1"] == "pip install 'saccade[local]'"
    assert parts["openai@1"] == "pip install 'saccade[models]'"
    assert parts["scripted@1"] == ""
    assert {"torch", "openai", "anthropic"} & set(asked)


def test_a_broken_package_is_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken_tool_of_others.py").write_text("\nraise ValueError('no')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint(name="theirs", value="broken_tool_of_others:T [gpu]", group="saccade.tools")
    monkeypatch.setattr(module, "entry_points", lambda group: [point])
    broken = Registry("tools", {"crop@1": "saccade.tools.crop:Crop"})
    monkeypatch.setattr("saccade.tools.registry.TOOLS", broken)
    crop, theirs = parts_of("tools")
    assert crop.problem == ""
    assert theirs.id == "theirs@1"
    assert theirs.source == "an installed package"
    assert "ValueError: no" in str(theirs)
    assert "broken_tool_of_others.py, line 2" in str(theirs)
