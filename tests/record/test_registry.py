"""Versioned ids, lazily loaded; misses suggest."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from saccade.errors import RegistryError
from saccade.record import registry as module
from saccade.record.registry import Registry

ENTRIES = {"pyvision@1": "json:loads", "pyvision@2": "json:dumps", "pyvision@10": "json:load", "thyme@1": "no_such:x"}


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group="saccade.things")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setattr(
        module, "entry_points", lambda group: [point("extra@1", "json:loads")] * (group == "saccade.things")
    )
    return Registry("things", ENTRIES)


def test_bare_name_is_the_highest_version_by_number(registry: Registry) -> None:
    assert registry.resolve("pyvision") == "pyvision@10"
    assert registry.resolve("pyvision@2") == "pyvision@2"
    assert registry.load("pyvision@2") is __import__("json").dumps


def test_ids_are_in_order_and_hold_those_of_other_packages(registry: Registry) -> None:
    assert registry.ids() == ("extra@1", "pyvision@1", "pyvision@2", "pyvision@10", "thyme@1")
    assert registry.load("extra") is __import__("json").loads


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("pyvison", r"Did you mean 'pyvision'\?"),
        ("pyvison@1", r"Did you mean 'pyvision@1'"),
        ("pyvision@3", r"no version '3' of pyvision; it has pyvision@1, pyvision@2, pyvision@10"),
        ("zzz", r"Known: extra, pyvision, thyme"),
        ("", r"Known"),
    ],
)
def test_misses_suggest(registry: Registry, wanted: str, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        registry.resolve(wanted)


def test_target_that_cannot_be_imported(registry: Registry) -> None:
    with pytest.raises(RegistryError, match="no_such"):
        registry.load("thyme@1")


@pytest.mark.parametrize(
    ("entry", "target"), [("Pyvision@1", "a:b"), ("x", "a:b"), ("x@01", "a:b"), ("x@1", "a.b"), ("x@1", "a:b:c")]
)
def test_malformed_entries_are_refused(entry: str, target: str) -> None:
    with pytest.raises(RegistryError, match="write"):
        Registry("things", {entry: target})


@pytest.mark.parametrize(("name", "message"), [("pyvision@1", "taken by json:loads"), ("Nameless", "no id")])
def test_bad_entry_points_are_named(monkeypatch: pytest.MonkeyPatch, name: str, message: str) -> None:
    monkeypatch.setattr(module, "entry_points", lambda group: [point(name, "other:thing")])
    with pytest.raises(RegistryError, match=message):
        Registry("things", ENTRIES).ids()


def test_making_a_registry_imports_nothing() -> None:
    code = (
        "import sys; from saccade.record.registry import Registry; before = set(sys.modules);"
        "r = Registry('things', {'x@1': 'wave:open'}); assert r.resolve('x') == 'x@1';"
        "assert 'wave' not in sys.modules; r.load('x'); assert 'wave' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
