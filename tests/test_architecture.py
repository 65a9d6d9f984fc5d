"""The house rules that a reader relies on: layers, no cycles, small files and functions, documented names."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import saccade

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "saccade"

# A package imports only from packages of a smaller number; packages of one number do not see each other.
LAYERS = {
    **dict.fromkeys(("errors", "guest"), 0),
    "record": 1,
    **dict.fromkeys(("media", "sandbox", "models", "tools", "recipes"), 2),
    **dict.fromkeys(("dialects", "tasks", "grading"), 3),
    **dict.fromkeys(("episode", "looks", "tokens"), 4),
    **dict.fromkeys(("rewards", "training"), 5),
    "env": 6,
    **dict.fromkeys(("evals", "rl", "sft"), 7),
    "report": 8,
    **dict.fromkeys(("serve", "bench", "reproduce"), 9),
    "cli": 10,
    "__main__": 11,
}
# _typeshed exists for type checkers alone.
GUEST_MAY_IMPORT = (
    frozenset({"numpy", "PIL", "matplotlib", "mpl_toolkits", "cv2", "av", "_typeshed"}) | sys.stdlib_module_names
)
FILE_LINES = 350
FUNCTION_LINES = 60
PARAMETERS = 7  # `self` counts

FILES = sorted(SOURCE.rglob("*.py"))
IDS = [path.relative_to(SOURCE).as_posix() for path in FILES]
each_file = pytest.mark.parametrize("path", FILES, ids=IDS)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def module_name(path: Path) -> str:
    parts = ("saccade", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> Iterator[str]:
    """Every module that a file names in an import anywhere: in functions and under TYPE_CHECKING too."""
    package = module_name(path).split(".") if path.name == "__init__.py" else module_name(path).split(".")[:-1]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield full if full in modules() else base


@cache
def modules() -> dict[str, Path]:
    return {module_name(path): path for path in FILES}


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def package_of(module: str) -> str:
    return module.split(".")[1]


def test_every_package_has_a_layer() -> None:
    found = {package_of(module_name(path)) for path in FILES if path != SOURCE / "__init__.py"}
    assert found <= LAYERS.keys(), f"give these a layer: {sorted(found - LAYERS.keys())}"


@each_file
def test_imports_go_down(path: Path) -> None:
    if path == SOURCE / "__init__.py":
        return  # it names the public names of every layer
    own = package_of(module_name(path))
    wrong = []
    for name in imported(path):
        if name == "saccade":
            wrong.append("saccade itself (import the module that defines the name)")
        elif name.startswith("saccade."):
            other = package_of(name)
            if other != own and LAYERS[other] >= LAYERS[own]:
                wrong.append(name)
    assert not wrong, f"{own} (layer {LAYERS[own]}) may not import {wrong}"


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


@pytest.mark.parametrize("path", sorted((SOURCE / "guest").rglob("*.py")), ids=lambda path: path.name)
def test_guest_imports_only_what_the_jail_has(path: Path) -> None:
    own = {file.stem for file in (SOURCE / "guest").rglob("*.py")} | {"guest"}
    allowed = GUEST_MAY_IMPORT | own
    wrong = {
        name for name in imported(path) if not name.startswith("saccade.guest") and name.split(".")[0] not in allowed
    }
    assert not wrong


@each_file
def test_file_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= FILE_LINES, "split it: it usually holds two ideas"


@each_file
def test_functions_are_small(path: Path) -> None:
    for node in functions(path):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        assert lines <= FUNCTION_LINES, f"{node.name} has {lines} lines"
        if any(
            isinstance(item, ast.Call) and ast.unparse(item.func).endswith(".command") for item in node.decorator_list
        ):
            continue  # the parameters of a Typer command are the options of its command line
        given = node.args
        count = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
        count += (given.vararg is not None) + (given.kwarg is not None)
        assert count <= PARAMETERS, f"{node.name} has {count} parameters"


def rank(name: str) -> int:
    """Constants first, then classes, then the rest: the order that ruff keeps too."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2


@each_file
def test_all_is_sorted(path: Path) -> None:
    for node in tree(path).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            names = ast.literal_eval(node.value)
            assert list(names) == sorted(names, key=lambda name: (rank(name), name))


@each_file
def test_public_names_are_documented(path: Path) -> None:
    module = tree(path)
    if module.body:
        assert ast.get_docstring(module), "a module opens with what it does and what it does not promise"
    named = [n for n in module.body if isinstance(n, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    bare = [n.name for n in named if not n.name.startswith("_") and not ast.get_docstring(n)]
    assert not bare, f"without a docstring: {bare}"


@each_file
def test_no_print_and_no_bare_except(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not {"cli", "programs"} & set(path.parts):
            assert node.func.id != "print", f"line {node.lineno} prints; only cli/ and programs for the sandbox do"
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"line {node.lineno} catches everything without naming it"


def test_import_is_light() -> None:
    code = "import saccade, saccade.errors, saccade.cli.main, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    heavy = {"torch", "matplotlib", "cv2", "numpy", "PIL", "pydantic", "httpx", "fastapi"}
    assert not heavy & set(run.stdout.split())


def test_record_needs_no_pixels() -> None:
    names = [name for name in modules() if name.startswith("saccade.record")]
    code = f"import sys; import {', '.join(names)}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"numpy", "PIL", "cv2"} & set(run.stdout.split())


def test_public_names_resolve() -> None:
    with pytest.raises(AttributeError, match="nothing_of_the_sort"):
        saccade.nothing_of_the_sort  # noqa: B018
    for name in saccade.__all__:
        assert getattr(saccade, name).__name__ == name
    assert set(saccade.__all__) <= set(dir(saccade))
    assert saccade.__version__.startswith("0.1")
