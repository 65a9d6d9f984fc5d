"""The rules that a reader relies on: layers, a core without plug-ins, no cycles, a guest by itself, documented names.

Each rule is one test over all files, and says everything that breaks it at once.
"""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "saccade"

# A package imports only from packages of a smaller number; packages of one number do not see each other.
LAYERS = {
    **dict.fromkeys(("errors", "guest"), 0),
    "core": 1,
    "record": 2,
    **dict.fromkeys(("media", "sandbox"), 3),
    **dict.fromkeys(("models", "tools"), 4),
    **dict.fromkeys(("dialects", "tasks", "grading"), 5),
    **dict.fromkeys(("episode", "tokens"), 6),
    "rewards": 7,
    **dict.fromkeys(("evals", "training"), 8),
    "report": 9,
    "cli": 10,
    **dict.fromkeys(("__main__", "plugins"), 11),
}
MAY_PRINT = {"cli", "programs", "reading"}
PLUGIN_OF_ANOTHER: dict[str, str] = {}
"""Imports from one plug-in to another that are allowed: module -> the reason. None is."""
# _typeshed exists for type checkers alone.
GUEST_MAY_IMPORT = (
    frozenset({"numpy", "PIL", "matplotlib", "mpl_toolkits", "cv2", "av", "_typeshed"}) | sys.stdlib_module_names
)
LONG_FUNCTION = 60
"""Lines; a few functions may be longer, where one table or one page is written out."""
MOST_LONG_FUNCTIONS = 15

FILES = sorted(SOURCE.rglob("*.py"))
ALL_FILES = [*FILES, *(path for name in ("examples", "tests", "tools") for path in sorted((ROOT / name).rglob("*.py")))]


@pytest.fixture(scope="module", autouse=True)
def no_garbage_is_looked_for() -> Iterator[None]:
    """All that is parsed stays to the end; the collector would look through it again and again."""
    gc.disable()
    yield
    gc.enable()


Function = ast.FunctionDef | ast.AsyncFunctionDef
Named = ast.ClassDef | Function


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(path)))


def module_name(path: Path) -> str:
    parts = ("saccade", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    return {module_name(path): path for path in FILES}


@cache
def imported(path: Path) -> tuple[str, ...]:
    """Every module that a file names in an import anywhere: in functions and under TYPE_CHECKING too."""
    package = module_name(path).split(".") if path.name == "__init__.py" else module_name(path).split(".")[:-1]
    found: list[str] = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.append(full if full in modules() else base)
    return tuple(found)


def package_of(module: str) -> str:
    return module.split(".")[1]


def at(path: Path, node: ast.AST | None = None) -> str:
    """Where to look, as an editor opens it."""
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


def none_of(wrong: Iterable[str]) -> None:
    if found := list(wrong):
        pytest.fail(f"{len(found)} places:\n" + "\n".join(found), pytrace=False)


def test_imports_go_down() -> None:
    found = {package_of(module_name(path)) for path in FILES if path != SOURCE / "__init__.py"}
    assert found <= LAYERS.keys(), f"give these a layer: {sorted(found - LAYERS.keys())}"
    none_of(
        f"{at(path)} {wrong}" for path in FILES if path != SOURCE / "__init__.py" for wrong in imports_not_below(path)
    )


def imports_not_below(path: Path) -> Iterator[str]:
    own = package_of(module_name(path))
    for name in imported(path):
        if name == "saccade":
            yield "imports saccade itself; import the module that defines the name"
        elif name.startswith("saccade."):
            other = package_of(name)
            if other != own and LAYERS[other] >= LAYERS[own]:
                yield f"{own} (layer {LAYERS[own]}) may not import {name}"


def test_no_import_cycles() -> None:
    edges = {
        name: {other for other in imported(path) if other in modules() and other != name}
        for name, path in modules().items()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, "import cycle: " + " -> ".join([*trail[trail.index(name) :], name])
        if name not in done:
            for other in sorted(edges[name]):
                visit(other, (*trail, name))
            done.add(name)

    for name in edges:
        visit(name, ())


def test_guest_imports_only_what_the_jail_has() -> None:
    files = sorted((SOURCE / "guest").rglob("*.py"))
    allowed = GUEST_MAY_IMPORT | {file.stem for file in files} | {"guest"}
    none_of(
        f"{at(path)} imports {name}"
        for path in files
        for name in imported(path)
        if not name.startswith("saccade.guest") and name.split(".")[0] not in allowed
    )


def test_the_core_imports_no_plugin_and_no_plugin_another() -> None:
    none_of(f"{at(path)} imports {name}" for path in FILES for name in imported(path) if not may_see_plugin(path, name))


def may_see_plugin(path: Path, name: str) -> bool:
    if not name.startswith("saccade.plugins."):
        return True
    own = module_name(path)
    return own.split(".")[1:3] == name.split(".")[1:3] or own in PLUGIN_OF_ANOTHER


def test_private_names_stay_in_their_package() -> None:
    """A name with an underscore is imported only within the package at the top that defines it."""
    none_of(f"{at(path, node)} {wrong}" for path in FILES for node, wrong in foreign_private(path))


def foreign_private(path: Path) -> Iterator[tuple[ast.AST, str]]:
    own = package_of(module_name(path)) if path != SOURCE / "__init__.py" else ""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("saccade.") and not node.level:
            for alias in node.names:
                if alias.name.startswith("_") and package_of(str(node.module)) != own:
                    yield node, f"imports {alias.name} of {node.module}"


def test_few_functions_are_long() -> None:
    long = [
        f"{at(path, node)} {node.name} has {lines} lines"
        for path in FILES
        for node in nodes(path)
        if isinstance(node, Function)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > LONG_FUNCTION
    ]
    if len(long) > MOST_LONG_FUNCTIONS:
        none_of(long)


def rank(name: str) -> int:
    """Constants first, then classes, then the rest: the order that ruff keeps too."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2


def test_all_is_sorted() -> None:
    unsorted = []
    for path in FILES:
        for node in tree(path).body:
            if isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
            ):
                if path == SOURCE / "__init__.py":
                    continue  # made from the table of public names
                names = list(ast.literal_eval(node.value))
                if names != sorted(names, key=lambda name: (rank(name), name)):
                    unsorted.append(at(path, node))
    none_of(unsorted)


def test_docstrings_are_there_where_needed_and_say_something() -> None:
    """Modules, public classes and functions, and public methods of a Protocol or ABC have one.

    Other methods need none where name and types say all, or where they do what their base says. One that is there says
    something: a pointer elsewhere does not, and of anything but a method one or two words do not either. A unit or a
    shape in a word ("Pixels.") is enough for a method.
    """
    none_of(f"{at(path, node)} {wrong}" for path in FILES for node, wrong in poorly_documented(path))


EMPTY = re.compile(r"(See|As) `[^`]+`\.?|(Nothing|None)\.?")


def poorly_documented(path: Path) -> Iterator[tuple[ast.AST, str]]:
    module = tree(path)
    if module.body and len((ast.get_docstring(module) or "").split()) < 3:
        yield module, "opens with no word on what it does and what it does not promise"
    own = [node for node in module.body if isinstance(node, Named)]
    for node in nodes(path):
        if isinstance(node, Named) and (text := ast.get_docstring(node)) is not None:
            short = len(text.split()) < 3 and (isinstance(node, ast.ClassDef) or node in own)
            if short or EMPTY.fullmatch(text):
                yield node, f"{node.name} says nothing by {text!r}: say more, or for a method leave it out"
    for node in own:
        if not node.name.startswith("_"):
            methods = node.body if isinstance(node, ast.ClassDef) and is_interface(node) else ()
            for item in (node, *methods):
                if isinstance(item, Named) and not item.name.startswith("_") and not ast.get_docstring(item):
                    yield item, f"{item.name} has no docstring"


def is_interface(node: ast.ClassDef) -> bool:
    bases = (ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases)
    return any(base in ("Protocol", "ABC") for base in bases)


def test_no_print_and_no_bare_except() -> None:
    none_of(f"{at(path, node)} {wrong}" for path in FILES for node, wrong in printed_or_caught(path))


def printed_or_caught(path: Path) -> Iterator[tuple[ast.AST, str]]:
    may_print = bool(MAY_PRINT & set(path.parts)) or path.stem.startswith(("cli", "ray_serve"))
    for node in nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print" and not may_print:
            yield node, "prints; only commands and programs for the sandbox do"
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            yield node, "catches everything without naming it"


def test_import_is_light() -> None:
    code = "import saccade, saccade.errors, saccade.cli.main, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    heavy = {"torch", "matplotlib", "cv2", "numpy", "PIL", "pydantic", "httpx", "fastapi"}
    assert not heavy & set(run.stdout.split())


def test_commands_need_no_torch() -> None:
    """A bare installation lists recipes and names a wrong one."""
    commands = ", ".join(f"saccade.cli.{path.stem}" for path in (SOURCE / "cli").glob("[a-z]*.py"))
    code = f"import {commands}, sys; from saccade.cli.main import main; codes = [main(['rl', 'list']),"
    code += " main(['rl', 'codedanse'])]; print(codes, 'torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.splitlines()[-1] == "[0, 2] False"


def test_tools_on_ray_need_no_torch() -> None:
    """Ray Serve's extra (`tools-serve`) brings none."""
    code = "import saccade.plugins.verl.ray_serve, sys; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.strip() == "False"


def test_only_the_environment_needs_gymnasium() -> None:
    none_of(
        f"{at(path)} imports {name}"
        for path in FILES
        if not {"env", "openenv"} & set(path.relative_to(SOURCE).parts)
        for name in imported(path)
        if name.startswith(("saccade.training.env", "gymnasium"))
    )


def test_record_needs_no_pixels() -> None:
    names = [name for name in modules() if name.startswith("saccade.record")]
    code = f"import sys; import {', '.join(names)}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"numpy", "PIL", "cv2"} & set(run.stdout.split())
