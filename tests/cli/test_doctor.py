from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from tests.sandbox.providers import linux_only

from saccade.cli import doctor
from saccade.cli.main import main
from saccade.core.registry import Registry
from saccade.sandbox import registry
from saccade.sandbox.isolation import Isolation, Layer, LayerState
from saccade.sandbox.promises import WEAKENED


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


def test_unknown_layer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--require", "moat"]) == 2
    assert "seccomp" in capsys.readouterr().err


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_are_told_the_way(
    system: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert main(["doctor", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert "RemoteSandbox" in report["error"]
    assert "Linux" in report["error"]
