"""Code of a user's own by file or module: which texts are that, what loading does, and what is said where it breaks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.core import registry as own_code
from saccade.core.disk import check_files, noted_files
from saccade.core.registry import PresetRegistry, Reference, Registry, blame, is_a, load, reference
from saccade.core.settings import Settings, load_settings, save_settings, settings_toml
from saccade.errors import RegistryError, SettingsError


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


def test_a_module_is_found_and_a_missing_one_is_named(here: Path) -> None:
    (here / "found_of_mine.py").write_text("A = 3\n")
    assert THINGS.find("found_of_mine:A") == 3
    for wanted in ("gone.py:A", "gone_package.deep:A"):
        with pytest.raises(RegistryError, match=r"gone\.py cannot be read|no module 'gone_package\.deep'"):
            THINGS.find(wanted)


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


def test_settings_whose_file_is_gone(here: Path) -> None:
    (here / "part.py").write_text("A = 3\n")
    save_settings(Named(tools=("part.py:A",)), here / "settings.toml")
    (here / "part.py").unlink()
    noted = noted_files(here / "settings.toml")["part.py"][:12]
    with pytest.raises(SettingsError, match=rf"part\.py is not there .*\(sha256 {noted}…\)"):
        check_files(here / "settings.toml")


def test_where_python_itself_fails_no_line_is_named(here: Path) -> None:
    (here / "garbage_of_mine.so").write_bytes(b"no library")
    with pytest.raises(RegistryError, match=r"garbage_of_mine:A cannot be loaded: ImportError") as caught:
        load(Reference("garbage_of_mine", "A"))
    assert ", line " not in str(caught.value)
    assert str(caught.value).endswith("Install what is missing, or correct it.")


def test_a_line_of_the_file_itself_comes_before_lines_of_what_it_calls(here: Path) -> None:
    (here / "helper_of_mine.py").write_text("def fail():\n    raise KeyError('x')\n")
    (here / "part.py").write_text("import helper_of_mine\n\n\nhelper_of_mine.fail()\n")
    with pytest.raises(RegistryError, match=r"part\.py:A cannot be loaded: KeyError: 'x' \(.*part\.py, line 4\)"):
        load(Reference("part.py", "A"))
    (here / "module_of_mine.py").write_text("\nimport helper_of_mine\nhelper_of_mine.fail()\n")
    with pytest.raises(RegistryError, match=r"module_of_mine:A .*\(.*helper_of_mine\.py, line 2\)"):
        load(Reference("module_of_mine", "A"))


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


def test_blame_says_notes_and_only_lines_of_the_users_own(here: Path) -> None:
    (here / "module_here.py").write_text(
        "def run():\n    error = ValueError('so  and\\n so')\n    error.add_note('see there')\n    raise error\n"
    )
    run = load(Reference("module_here", "run"))
    with pytest.raises(ValueError, match="so") as caught:
        run()  # type: ignore[operator]
    assert blame(caught.value).startswith("ValueError: so and so [see there]\nraised through ")
    assert "module_here.py, line 4, in run:\n    raise error" in blame(caught.value)
    loads = load(Reference("json", "loads"))
    with pytest.raises(ValueError, match="Expecting") as other:
        loads("{")  # type: ignore[operator]
    assert blame(other.value) == ""  # Python's own library is nobody's own code


def test_long_messages_are_cut_and_folders_are_put_on_the_path_once(here: Path) -> None:
    (here / "part.py").write_text("raise ValueError('x' * 500)\n")
    for _ in range(2):
        with pytest.raises(RegistryError, match=r"ValueError: x{400} \("):
            load(Reference("part.py", "A"))
    assert sys.path.count(str(here)) == 1


@pytest.mark.parametrize(("current", "folder", "added"), [(True, ".", False), (True, "deep", True), (False, ".", True)])
def test_the_current_folder_is_not_put_on_the_path_again(here: Path, current: bool, folder: str, added: bool) -> None:
    """Python names it with an empty text where it runs a program of the current folder."""
    (here / "deep").mkdir()
    (here / folder / "mine_too.py").write_text("A = 1\n")
    sys.path[:] = [*([""] if current else []), *(entry for entry in sys.path if entry)]
    before = list(sys.path)
    load(Reference(f"{folder}/mine_too.py", "A"))
    assert sys.path == [*before, *([str(here / folder).removesuffix("/.")] if added else [])]


def test_names_that_a_file_imports_are_not_proposed(here: Path) -> None:
    (here / "mine.py").write_text("from pathlib import Path\nclass Mine: pass\n")
    with pytest.raises(RegistryError, match=r"mine\.py has no 'Zoom'\. Known: Mine\.$"):
        load(Reference("mine.py", "Zoom"))
    (here / "part.py").write_text("raise RuntimeError('no')\n")
    with pytest.raises(RegistryError, match=r"^part\.py cannot be loaded: RuntimeError: no \(.*line 1\)\. Correct it"):
        own_code.defined("part.py")
