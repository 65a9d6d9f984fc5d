"""The public names: each imports, is documented and typed, and the docs use no others."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import api_page

import saccade
from saccade.cli.list import KINDS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p.name not in ("map.md", "api.md"))]
NO_MODULE = frozenset({"saccade.KIND", "saccade.json", "saccade.evals.api"})
"""A placeholder, a file and a logger that the docs name."""
PLUGINS = "saccade.plugins."
"""Names of plug-ins are promised by the plug-in's own page, where it shows them."""


def promised() -> Iterator[tuple[str, str]]:
    """Module and name of everything that is public."""
    for homes in (*saccade.PUBLIC.values(), saccade.PUBLIC_MODULES):
        for home, listed in homes.items():
            yield from ((home, name) for name in api_page.names_of(home, listed))


def test_the_page_says_something_of_every_name_and_is_up_to_date() -> None:
    assert api_page.api_page() == api_page.TARGET.read_text(encoding="utf-8"), "run `make map`"


def test_a_name_without_docstring_is_refused() -> None:
    with pytest.raises(LookupError, match=r"core\.retry has no nothing"):
        api_page.sentence("core.retry", "nothing")
    with pytest.raises(LookupError, match=r"core\.retry\.T is public and has no docstring"):
        api_page.sentence("core.retry", "T")


def test_every_public_name_imports() -> None:
    for name in saccade.__all__:
        home = saccade._HOMES[name]
        assert getattr(saccade, name) is getattr(importlib.import_module(f"saccade.{home}"), name)
    for home, name in promised():
        module = importlib.import_module(f"saccade.{home}")
        assert hasattr(module, name), f"saccade.{home} has no {name}"
        assert not name.startswith("_")
    assert set(saccade.__all__) <= set(dir(saccade))
    assert saccade.__version__.startswith("0.1")
    with pytest.raises(AttributeError, match="nothing_of_the_sort"):
        saccade.nothing_of_the_sort  # type: ignore[attr-defined]  # noqa: B018


def test_no_name_is_promised_twice_and_none_is_a_package() -> None:
    names = [name for homes in saccade.PUBLIC.values() for listed in homes.values() for name in listed.split()]
    assert len(names) == len(set(names))
    assert not {path.stem for path in (ROOT / "src" / "saccade").iterdir()} & set(names)


def test_type_checkers_see_the_same_names() -> None:
    """The imports under TYPE_CHECKING are the table, name for name, each exported (`import name as name`)."""
    tree = ast.parse((ROOT / "src" / "saccade" / "__init__.py").read_text(encoding="utf-8"))
    seen = {
        item.asname: (node.module or "").removeprefix("saccade.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("saccade")
        for item in node.names
        if item.asname == item.name
    }
    assert seen == saccade._HOMES
    assert (ROOT / "src" / "saccade" / "py.typed").exists()


@pytest.mark.slow
def test_a_users_program_is_type_checked(tmp_path: Path) -> None:
    program = tmp_path / "mine.py"
    program.write_text(
        "from saccade import Plan, Task, Trajectory, ask, load_dialect\n"
        'plan = Plan(Task(id="t", question="?"), load_dialect("direct"))\n'
        'found: Trajectory = ask([], "?", model="openai:gpt-4.1")\n'
        "number: int = plan.id\n"
        "from saccade import no_such_name\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(program)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.stdout.count("error:") == 2, run.stdout
    assert re.search(r'mine\.py:4: error: .*expression has type "str"', run.stdout)
    assert 'mine.py:5: error: Module "saccade" has no attribute "no_such_name"' in run.stdout


def test_importing_loads_one_module() -> None:
    code = "import sys; before = set(sys.modules); import saccade; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) <= {"saccade", "__future__"}


def imports(text: str) -> Iterator[tuple[str, str]]:
    """Module and name of what a program imports from saccade; the name is empty for `import module`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((item.name, "") for item in node.names if item.name.split(".")[0] == "saccade")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "saccade":
            yield from ((node.module or "", item.name) for item in node.names)


def test_examples_of_the_docs_import_public_names_alone() -> None:
    public = {(f"saccade.{home}", name) for home, name in promised()}
    public |= {("saccade", name) for name in ("", *saccade.__all__)}
    public |= {(module, "") for module, _ in public}
    first = {
        name: home for homes in saccade.PUBLIC.values() for home, listed in homes.items() for name in listed.split()
    }
    wrong, count = [], 0
    for document in PAGES:
        for block in re.findall(r"^```python[^\n]*\n(.*?)^```$", document.read_text(encoding="utf-8"), re.M | re.S):
            for module, name in imports(block):
                count += 1
                if (module, name) not in public and not module.startswith(PLUGINS):
                    wrong.append(f"{document.name}: {module}.{name} is private")
                elif first.get(name) == module.removeprefix("saccade."):
                    wrong.append(f"{document.name}: import {name} from saccade itself")
    assert not wrong, "\n".join(wrong)
    assert count > 50


def is_logger(name: str) -> bool:
    """Whether the module of that name logs."""
    path = (ROOT / "src" / name.replace(".", "/")).with_suffix(".py")
    return path.exists() and "logging.getLogger(__name__)" in path.read_text(encoding="utf-8")


def test_every_logger_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "logging.md").read_text(encoding="utf-8")
    for path in (ROOT / "src" / "saccade").rglob("*.py"):
        if "logging.getLogger(__name__)" in path.read_text(encoding="utf-8"):
            name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
            assert f"`{name}`" in page, f"docs/logging.md does not say what {name} logs"


def test_texts_of_the_docs_name_public_modules_alone() -> None:
    public = {f"saccade.{home}.{name}" for home, name in promised()} | {f"saccade.{name}" for name in saccade.__all__}
    public |= {f"saccade.{home}" for home, _ in promised()} | NO_MODULE
    groups = {f"saccade.{kind}" for kind in (*KINDS, "commands", "audits", "tool-lists")}
    wrong = [
        f"{document.name}: {name}"
        for document in PAGES
        for name in re.findall(r"`(saccade\.[\w.-]+)", document.read_text(encoding="utf-8"))
        if name.rstrip(".") not in public | groups
        and not name.startswith(PLUGINS)
        and not (document.name == "logging.md" and is_logger(name))
    ]
    assert not wrong, "\n".join(wrong)
