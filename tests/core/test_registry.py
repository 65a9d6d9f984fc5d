"""Versioned ids, lazily loaded, and code of a user's own by file or module; misses suggest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.core import registry as module
from saccade.core import registry as own_code
from saccade.core.disk import check_files, noted_files
from saccade.core.registry import (
    Lacks,
    PresetRegistry,
    Reference,
    Registry,
    blame,
    has_members,
    is_a,
    is_subclass,
    load,
    reference,
)
from saccade.core.settings import Settings, load_settings, save_settings, settings_toml
from saccade.errors import RegistryError, SettingsError

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


def test_a_name_that_is_near_to_none_is_told_where_all_are() -> None:
    things = Registry[object]("widgets", {f"{letter}@1": "json:loads" for letter in "abcdefghijklmnopq"})
    for wanted in ("zzzzzz", "zzzzzz:X"):
        with pytest.raises(RegistryError, match=r"`saccade list widgets` names all\.$"):
            things.load(wanted)
    with pytest.raises(RegistryError, match=r"Of a file, name what is in it: mine\.py:NAME\."):
        things.resolve("mine.py")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder; the import system is as before afterwards."""
    path, modules = list(sys.path), set(sys.modules)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]
        own_code._modules.pop(name, None)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("flip.py:Flip", Reference("flip.py", "Flip")),
        ("/a b/my-tools.py:FLIP", Reference("/a b/my-tools.py", "FLIP")),
        ("../flip.py:PRESETS:strict", Reference("../flip.py", "PRESETS", "strict")),
        ("m.py:load@name@http://host:8000/v1", Reference("m.py", "load", "name@http://host:8000/v1")),
        ("pkg.mod:Flip", Reference("pkg.mod", "Flip")),
        ("mod:g:tolerance=0.1", Reference("mod", "g", "tolerance=0.1")),
        ("codedance:paper", Reference("codedance", "paper")),
        ("pyvision@1", None),
        ("pyvision@1:repo", None),
        ("pyvision-rl-image:paper", None),
        ("vllm:Qwen/Qwen2.5-VL-7B@http://host:8000/v1", None),
        ("openai:gpt-4.1", None),
        ("flip.py", None),
        ("flip.py:", None),
        ("flip.py:2", None),
        (":x", None),
        ("", None),
    ],
)
def test_which_texts_are_references(text: str, found: Reference | None) -> None:
    assert reference(text) == found


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    found = reference(text)
    assert found is None or text.startswith(found.name)


def test_a_file_is_run_once_and_finds_its_neighbours(here: Path) -> None:
    (here / "deep").mkdir()
    (here / "deep" / "neighbour_of_mine.py").write_text("ONE = 1\n")
    file = here / "deep" / "part.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom neighbour_of_mine import ONE\n"
        "@dataclass\nclass A:\n    x: int = ONE\n\nEACH = [A()]\n"
    )
    first = load(Reference("deep/part.py", "EACH"))
    assert load(Reference(str(file), "EACH")) is first
    assert first[0].x == 1  # type: ignore[index]
    assert not (here / "deep" / "__pycache__" / "part.cpython-311.pyc").exists()


def test_a_module_of_the_current_folder_and_of_the_library(here: Path) -> None:
    (here / "mine_here.py").write_text("PART = 'p'\n")
    assert load(Reference("mine_here", "PART")) == "p"
    assert load(Reference("json", "loads")) is __import__("json").loads


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\ny = = 2\n", r"part\.py:A cannot be loaded: SyntaxError: .*part\.py, line 2\)\. Correct it"),
        (
            "\n\nimport no_such_package\n",
            r"ModuleNotFoundError: No module named 'no_such_package' \(.*part\.py, line 3",
        ),
        ("def f():\n    return 1 / 0\n\nf()\n", r"ZeroDivisionError: division by zero \(.*part\.py, line 2\)"),
        ("import json\njson.loads('{')\n", r"JSONDecodeError: .*\(.*part\.py, line 2\)"),
        ("import sys\nsys.exit(3)\n", r"SystemExit: 3 \(.*part\.py, line 2\)"),
        ("from pathlib import Path\nAA = Path()\n", r"part\.py has no 'A'\. Did you mean 'AA'"),
        ("class Ab: pass\n", r"part\.py has no 'A'\. Did you mean 'Ab'|Known: Ab"),
    ],
)
def test_what_breaks_in_a_file_is_told_with_its_line(here: Path, source: str, said: str) -> None:
    (here / "part.py").write_text(source)
    with pytest.raises(RegistryError, match=said):
        load(Reference("part.py", "A"))
    with pytest.raises(RegistryError, match=said):  # a broken file leaves nothing half loaded behind
        load(Reference("part.py", "A"))


def test_what_breaks_in_a_module_is_told_with_its_line(here: Path) -> None:
    (here / "broken_of_mine.py").write_text("\nimport no_such_package\n")
    with pytest.raises(RegistryError, match=r"No module named 'no_such_package' \(.*broken_of_mine\.py, line 2"):
        load(Reference("broken_of_mine", "A"))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (Reference("gone.py", "A"), r"gone\.py cannot be read: No such file or directory \(.*gone\.py\)"),
        (Reference("no_such_package.deep", "A"), r"there is no module 'no_such_package\.deep'"),
        (Reference("json.decoder.deeper", "A"), r"there is no module 'json\.decoder\.deeper'"),
    ],
)
def test_what_is_not_there(code: Reference, said: str) -> None:
    with pytest.raises(RegistryError, match=said):
        load(code)


def test_blame_names_the_last_line_of_the_users_code(here: Path) -> None:
    (here / "part.py").write_text("import json\n\ndef run(text):\n    return json.loads(text)\n")
    run = load(Reference("part.py", "run"))
    with pytest.raises(ValueError, match="Expecting") as caught:
        run("{")  # type: ignore[operator]
    said = blame(caught.value)
    assert "JSONDecodeError" in said
    assert "part.py, line 4, in run:\n    return json.loads(text)" in said
    with pytest.raises(ZeroDivisionError) as other:
        1 / 0  # noqa: B018
    assert blame(other.value) == ""


THINGS: Registry[int] = Registry("things", {"one@1": "math:pi", "two@1": "math:tau"}, is_a(int, "an int"))
FAMILIES = PresetRegistry[int]("families", {"one@1": "json:loads"}, is_a(int, "an int"))


def test_a_registry_takes_code_and_checks_its_kind(here: Path) -> None:
    (here / "part.py").write_text("A = 3\nB = 'three'\nMANY = {'x': 1, 'y': 2}\nNONE = {}\n")
    assert THINGS.load("part.py:A") == 3
    assert THINGS.full_name("part.py:A") == "part.py:A"
    assert FAMILIES.load("part.py:A") == 3
    assert FAMILIES.load("part.py:MANY") == 1
    assert FAMILIES.load("part.py:MANY:y") == 2
    assert FAMILIES.presets("part.py:MANY") == ("x", "y")
    for registry, wanted, said in (
        (THINGS, "part.py:B", "part.py:B is no thing: it is a value of type str, not an int"),
        (THINGS, "part.py:A:x", "nothing may follow part.py:A"),
        (THINGS, "one", "one is no thing: it is a value of type float"),
        (THINGS, "part.py", "name what is in it: part.py:NAME"),
        (THINGS, "onne:x", r"no 'onne', and there is no module of that name\. Did you mean 'one'"),
        (FAMILIES, "part.py:MANY:z", "has no preset 'z'. Known: x, y"),
        (FAMILIES, "part.py:A:z", "has no presets"),
        (FAMILIES, "part.py:NONE", "a mapping without presets"),
    ):
        with pytest.raises(RegistryError, match=said):
            registry.load(wanted)


def test_registered_names_come_before_modules(here: Path) -> None:
    (here / "one.py").write_text("x = 3\n")
    assert THINGS.code("one:x") is None
    assert THINGS.load("one.py:x") == 3


def test_a_record_runs_no_code(here: Path) -> None:
    (here / "part.py").write_text("from pathlib import Path\nPath('ran').touch()\nA = 3\n")
    for name in ("part.py:A", "part:A"):
        with pytest.raises(RegistryError, match="is not run by itself"):
            THINGS.load_recorded(name)
    assert not (here / "ran").exists()
    assert THINGS.load("part.py:A") == 3
    assert THINGS.load_recorded("part.py:A") == 3  # the user has named it


class Named(Settings):
    """Settings that name parts."""

    tools: tuple[str, ...] = ()
    other: Mapping[str, str] = {}


def test_settings_note_the_sha256_of_files(here: Path) -> None:
    (here / "part.py").write_text("A = 3\n")
    settings = Named(tools=("crop", "part.py:A", "gone.py:A", "json:loads"), other={"x": "part.py:B"})
    text = settings_toml(settings)
    assert text.count("# sha256 ") == 1
    file = here / "settings.toml"
    save_settings(settings, file)
    assert load_settings(Named, file) == settings
    assert noted_files(file).keys() == {"part.py"}
    check_files(file)
    (here / "part.py").write_text("A = 4\n")
    with pytest.raises(SettingsError, match=r"part\.py has changed"):
        check_files(file)
    before = noted_files(file)
    save_settings(settings, file)
    assert noted_files(file) == before  # it was not run here, so what is noted stays
    load(Reference("part.py", "A"))
    save_settings(settings, file)
    assert noted_files(file) != before
    (here / "part.py").unlink()
    check_files(file)  # what counts is what this process runs


class Prompting(Settings):
    """Settings with a prompt file, in a table of their own."""

    prompt_file: str = ""
    note: str = ""


class Asking(Settings):
    """Settings that hold others."""

    data: Prompting = Prompting()


@pytest.mark.parametrize("name", ["mine.txt", "prompts.py"])
def test_settings_note_the_sha256_of_prompt_files(here: Path, name: str) -> None:
    (here / name).write_text("A = '{query}'")
    file = here / "settings.toml"
    save_settings(Asking(data=Prompting(prompt_file=name, note="other.txt")), file)
    (here / "other.txt").write_text("a text of another setting is no prompt file")
    assert noted_files(file).keys() == {name}
    check_files(file)
    (here / name).write_text("A = 'Look. {query}'")
    with pytest.raises(SettingsError, match=f"{name} has changed"):
        check_files(file)
    (here / name).unlink()
    with pytest.raises(SettingsError, match=f"{name} is not there"):
        check_files(file)


def test_what_was_run_is_what_is_digested(here: Path) -> None:
    part = Reference("part.py", "A")
    assert own_code.digest(part) is None
    assert own_code.digest(Reference("json", "loads")) is None
    assert not own_code.findable(part)
    (here / "part.py").write_text("A = 3\n")
    found = own_code.digest(part)
    assert found == sha256(b"A = 3\n").hexdigest()
    assert own_code.findable(part)
    assert not own_code.loaded(part)
    load(part)
    assert own_code.loaded(part)
    (here / "part.py").write_text("A = 4\n")
    assert own_code.digest(part) == found
    assert load(part) == 3
    assert own_code.findable(Reference("json.decoder", "x"))
    assert not own_code.findable(Reference("no_such_package.x", "x"))
