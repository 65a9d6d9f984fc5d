"""Versioned ids, lazily loaded; misses suggest."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from saccade.core import registry as module
from saccade.core.registry import Lacks, PresetRegistry, Registry, has_members, is_a, is_subclass
from saccade.errors import RegistryError

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
        "import sys; from saccade.core.registry import Registry; before = set(sys.modules);"
        "r = Registry('things', {'x@1': 'wave:open'}); assert r.resolve('x') == 'x@1';"
        "assert 'wave' not in sys.modules; r.load('x'); assert 'wave' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Dist:
    name = "their-package"


def test_ids_of_other_packages_have_an_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [point("bare", "json:loads"), point("pyvision@3", "json:dump [extra]"), point("thyme@1", "no_such:x")]
    vars(found[1])["dist"] = Dist()
    monkeypatch.setattr(module, "entry_points", lambda group: found)
    registry = Registry("things", ENTRIES)
    assert dict(registry.owners) == {
        "bare@1": "an installed package",
        "pyvision@3": "their-package",
        "thyme@1": "an installed package",  # the same target twice is no quarrel
    }
    assert registry.names() == ("bare", "pyvision", "thyme")
    assert (registry.extra("pyvision@3"), registry.extra("bare@1")) == ("extra", "")
    assert registry.load("pyvision@3") is __import__("json").dump
    assert [registry.has(name) for name in ("bare", "bare@1", "bare@2", "b", "")] == [True, True, False, False, False]


def test_an_entry_point_without_a_target_is_refused_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "entry_points", lambda group: [point("bad@1", "json.loads")])
    registry = Registry("things", ENTRIES)
    assert "bad@1" in registry.ids()
    assert registry.extra("bad@1") == ""
    with pytest.raises(RegistryError, match=r"'json.loads' of bad@1 is no target"):
        registry.load("bad")


def test_names_are_split_from_what_follows_them(registry: Registry) -> None:
    assert registry.split("pyvision@2:repo:more") == ("pyvision@2", "repo:more")
    assert registry.split("pyvision") == ("pyvision", None)
    assert registry.split("pyvision:") == ("pyvision", "")
    assert registry.split("part.py:A:x") == ("part.py:A", "x")
    assert registry.full_name("pyvision") == "pyvision@10"


PRESETS = PresetRegistry[Any]("families", {"ascii@1": "string:__dict__", "flat@1": "math:pi"})


def test_presets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "entry_points", lambda group: [])
    assert PRESETS.load("ascii:digits") == "0123456789"
    assert PRESETS.load("ascii") == next(iter(vars(__import__("string")).values()))
    assert PRESETS.presets("flat") == ()
    assert PRESETS.load("flat") == __import__("math").pi
    with pytest.raises(RegistryError, match=r"flat has no presets, so not 'x' either; write flat"):
        PRESETS.load("flat:x")
    with pytest.raises(RegistryError, match=r"ascii has no preset 'digit'. Did you mean 'digits'"):
        PRESETS.load("ascii:digit")


@pytest.mark.parametrize(
    ("lacks", "found", "said"),
    [
        (is_a(int, "a number"), 3, ""),
        (is_a(int, "a number"), "3", "it is a value of type str, not a number"),
        (is_a((int, str), "a number"), int, "it is the class int, not a number"),
        (is_subclass(int, "a kind of number"), bool, ""),
        (is_subclass(int, "a kind of number"), str, "it is the class str, not a kind of number"),
        (is_subclass(int, "a kind of number"), True, "it is a value of type bool, not a kind of number"),
        (is_subclass(int, "a kind of number"), len, "it is the function len, not a kind of number"),
        (has_members(["upper", "lower"]), "x", ""),
        (has_members(["upper", "over", "under"]), "x", "it is a value of type str without over, under"),
        (has_members(["upper"]), str, "it is the class str; name an object of it"),
    ],
)
def test_what_an_object_lacks(lacks: Lacks, found: object, said: str) -> None:
    assert lacks(found) == said


def test_what_is_no_such_thing_is_said_in_the_singular() -> None:
    things = Registry[object]("widgets", {"one@1": "json:loads"}, is_a(int, "a number"))
    said = "is no widget: it is the function loads, not a number."
    for name in ("one", "one@1"):
        with pytest.raises(RegistryError, match=f"{name} {said}$"):
            things.load(name)
    with pytest.raises(RegistryError, match=rf"{said} docs/extending\.md shows a widget of one's own\.$"):
        things.load("json:loads")


def test_a_name_that_is_near_to_none_is_told_where_all_are() -> None:
    things = Registry[object]("widgets", {f"{letter}@1": "json:loads" for letter in "abcdefghijklmnopq"})
    for wanted in ("zzzzzz", "zzzzzz:X"):
        with pytest.raises(RegistryError, match=r"`saccade list widgets` names all\.$"):
            things.load(wanted)
    with pytest.raises(RegistryError, match=r"Of a file, name what is in it: mine\.py:NAME\."):
        things.resolve("mine.py")
