"""Test `saccade doctor`: what it says of this machine, and its exit codes."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import EntryPoint
from io import StringIO
from pathlib import Path

import pytest
from rich.table import Table
from tests.sandbox.providers import linux_only

import saccade
from saccade.cli import doctor
from saccade.cli import list as listing
from saccade.cli.list import KINDS, parts_of
from saccade.cli.main import main
from saccade.cli.output import error_text, plain_column, plain_console
from saccade.core import registry as module
from saccade.core.registry import Registry, install
from saccade.sandbox import registry
from saccade.sandbox.isolation import WEAKENED, Isolation, Layer, LayerState


def test_every_layer_is_explained() -> None:
    assert set(doctor.STOPS) == set(Layer)


@pytest.mark.parametrize("layer", Layer)
def test_the_promises_that_a_missing_layer_weakens_are_named(layer: Layer) -> None:
    states = (LayerState(layer=layer, on=on) for on in (False, True))
    off, on = (doctor.layer_facts(Isolation(platform="test", layers=(state,)), layer) for state in states)
    assert on["weakens"] == ""
    assert [loss.split(": ")[0] for loss in off["weakens"].split("; ")] == [
        promise.value for promise in WEAKENED[layer]
    ]
    assert WEAKENED[layer]


@linux_only
def test_json_report(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == (0 if report["ok"] else 1)
    assert report["error"] is None
    assert [row["layer"] for row in report["layers"]] == [layer.value for layer in Layer]
    assert all(row["on"] or row["remedy"] for row in report["layers"])
    assert "numpy" in {name.lower() for name in report["guest"]}
    assert "attacks" not in report


@linux_only
@pytest.mark.slow
def test_table_names_every_layer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    main(["doctor"])
    out = capsys.readouterr().out
    assert all(layer.value in out for layer in Layer)


@linux_only
@pytest.mark.slow
def test_attack_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    main(["doctor", "--attack", "--only", "segfault", "--only", "read_passwd"])
    out = capsys.readouterr().out
    assert "2 attacks, 0 got through" in out
    assert "read /etc/passwd" in out


def test_missing_required_layer_is_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lacking(required: object) -> dict[str, object]:
        off = Isolation(platform="test", layers=(LayerState(layer=Layer.CGROUP, on=False, detail="no cgroup here"),))
        rows = [doctor.layer_facts(off, layer) for layer in Layer]
        facts = {"ok": False, "error": None, "system": "s", "python": "p", "guest": {}, "memory": {}, "required": []}
        return facts | {"missing": "the sandbox lacks required isolation layers", "layers": rows}

    monkeypatch.setattr(doctor, "examine", lacking)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["doctor", "--require", "cgroup"]) == 1
    out = capsys.readouterr().out
    assert "lacks required isolation layers" in out
    assert "no cgroup here" in out


def test_without_the_plug_in_it_is_said_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "AUDITS", Registry[registry.Audit]("audits_of_nobody", {}))
    assert main(["doctor", "--attack"]) != 0
    assert "plug-in `audit` of Saccade, which is not installed" in " ".join(capsys.readouterr().err.split())


def test_the_sandbox_imports_neither_attacks_nor_conformance() -> None:
    """Not even late, inside a function."""
    folder = Path(registry.__file__).parent
    for file in folder.glob("*.py"):
        imported = [line for line in file.read_text().splitlines() if re.match(r"\s*(from|import) ", line)]
        assert not [line for line in imported if re.search(r"sandbox[. ].*(attacks|conformance)", line)], file


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_are_told_the_way(
    system: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert main(["doctor", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert "RemoteSandbox" in report["error"]
    assert "Linux" in report["error"]


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
    assert parts["local@1"] == "pip install 'saccade-vlm[local]'"
    assert parts["openai@1"] == "pip install 'saccade-vlm[models]'"
    assert parts["scripted@1"] == ""
    assert {"torch", "openai", "anthropic"} & set(asked)


def test_a_broken_package_is_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken_tool_of_others.py").write_text("\nraise ValueError('no')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint(name="theirs", value="broken_tool_of_others:T [gpu]", group="saccade.tools")
    monkeypatch.setattr(module, "entry_points", lambda group: [point])
    broken = Registry("tools", {"crop@1": "saccade.tools.pictures:Crop"})
    monkeypatch.setattr("saccade.tools.registry.TOOLS", broken)
    crop, theirs = parts_of("tools")
    assert crop.problem == ""
    assert theirs.id == "theirs@1"
    assert theirs.source == "an installed package"
    assert "ValueError: no" in str(theirs)
    assert "broken_tool_of_others.py, line 2" in str(theirs)


SOURCE = Path(saccade.__file__).parent


HINT = re.compile(r"install\(['\"]([a-z-]+)['\"]\)")


def hints() -> list[tuple[str, str]]:
    found = [(path, text) for path in SOURCE.rglob("*.py") for text in HINT.findall(path.read_text(encoding="utf-8"))]
    return sorted({(str(path.relative_to(SOURCE)), text) for path, text in found})


def test_no_install_hint_loses_its_extra() -> None:
    assert len(hints()) > 10
    page = StringIO()
    console = plain_console(file=page, width=200)
    table = Table("hint")
    for _, hint in hints():
        console.print(f"Run: {install(hint)}", style="yellow")
        table.add_row(install(hint))
    console.print(table)
    with console.status("x"):
        pass
    for _, hint in hints():
        assert page.getvalue().count(install(hint)) >= 2, hint
    assert plain_column("{task.description}").markup is False


def test_an_error_has_three_lines_and_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert error_text("one") == "one"
    assert error_text("a:\n  b\n  c\n  d\n\n  e") == "a:\n  b\n  c; d; e"
    mistakes = [f"--set=sampling.t{number}=1" for number in range(5)]
    assert main(["ask", "x.png", "What?", "--model", "scripted:none.json", *mistakes]) == 2
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == 3
    assert all(f"sampling.t{number}" in "\n".join(printed) for number in range(5))
