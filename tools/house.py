"""Print the size and shape of the package as a table: of the working tree, or of a commit.

    python tools/house.py [COMMIT] [--static]

Counts lines and files, walks the imports of every module (late ones and those for type checkers too), and runs two
programs to see what one `ask` and one toy step of `rl` load. `--static` leaves the programs out. Standard library only;
the programs run with the Python that runs this one, which needs the packages of Saccade.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONG_FUNCTION = 60
PLUGINS = "plugins"

ASK = """
import sys, tempfile
from pathlib import Path
from PIL import Image
from saccade import ScriptedModel, ask

class Counting(ScriptedModel):
    async def complete(self, request, media, **more):
        frame, self.above = sys._getframe(1), 0
        while frame is not None:
            self.above += "/src/saccade/" in frame.f_code.co_filename
            frame = frame.f_back
        return await super().complete(request, media, **more)

model = Counting(["<code>\\n```python\\nprint(image_clue_0.size)\\n```\\n</code>", "<answer>red</answer>"])
photo = Path(tempfile.mkdtemp()) / "photo.png"
Image.new("RGB", (80, 60), "red").save(photo)
made = ask(photo, "Which colour?", model=model, dialect="pyvision")
assert made.answer == "red" and len(made.turns) == 2, made
"""
CHECKPOINT = """
import sys
from pathlib import Path
from tests.training.rl.train.support import write_tasks
from saccade.plugins.worlds.random_checkpoint import save_tiny
save_tiny(Path(sys.argv[1]) / "tiny", "qwen2_5_vl")
write_tasks(Path(sys.argv[1]), 2)
"""
RL = """
import sys
from importlib import import_module
from pathlib import Path
import pytest
from tests.training.rl.train.support import rl_settings, toy
toy(pytest.MonkeyPatch())
here = Path(sys.argv[1])
more = {"steps": 1, "rounds": {"tasks": 1, "groups": 1, "rounds": 1}}
import_module(sys.argv[2]).train(rl_settings(here / "tiny", here, recipe=more), here / "run")
"""
LOADED = """
files = [getattr(module, "__file__", None) for name, module in sys.modules.items() if name.split(".")[0] == "saccade"]
lines = sum(len(open(file, encoding="utf-8").readlines()) for file in files if file)
print("LOADED", sum(map(bool, files)), lines, getattr(globals().get("model"), "above", 0))
"""

Edges = dict[str, set[str]]


@dataclass(frozen=True)
class Module:
    """One file of the package, parsed."""

    path: Path
    tree: ast.Module
    lines: int


def main(arguments: list[str]) -> None:
    """Print the table."""
    commits = [item for item in arguments if item != "--static"]
    with tempfile.TemporaryDirectory(prefix="house-") as scratch:
        root = checked_out(commits[0], Path(scratch)) if commits else ROOT
        modules = parsed(root / "src" / "saccade")
        rows = [*sizes(root, modules), *shape(modules)]
        if "--static" not in arguments:
            rows += loads(root, modules)
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name:<{width}}  {value}" for name, value in rows))


def checked_out(commit: str, folder: Path) -> Path:
    """Write the files of `commit` into `folder`, and return it."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "x"], cwd=folder, input=archive.stdout, check=True)
    return folder


def parsed(source: Path) -> dict[str, Module]:
    """Every module under `source` by its dotted name, which begins with `saccade`."""
    modules = {}
    for path in sorted(source.rglob("*.py")):
        parts = ("saccade", *path.relative_to(source).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = Module(path, ast.parse(text, str(path)), len(text.splitlines()))
    return modules


def sizes(root: Path, modules: dict[str, Module]) -> Iterator[tuple[str, str]]:
    """Yield the rows that count lines and files."""
    lines = {name: module.lines for name, module in modules.items()}
    core = sum(count for name, count in lines.items() if place(name)[0] != PLUGINS)
    everything = sum(lines.values())
    tests = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (root / "tests").rglob("*.py"))
    opening = sum(prologue(module) for module in modules.values())
    folders = {path.name for path in (root / "src" / "saccade").iterdir() if any(path.glob("**/*.py"))}
    yield "lines of Python in src/saccade, core / all", f"{core:,} / {everything:,}"
    yield "files in src/saccade", f"{len(modules):,}"
    yield "prologue (before the first definition)", f"{opening / everything:.1%}"
    yield "top-level folders of src/saccade", str(len(folders))
    yield "lines of tests", f"{tests:,}"


def prologue(module: Module) -> int:
    """Count the lines before the first statement that is neither docstring nor import."""
    for node in module.tree.body:
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not text and not isinstance(node, ast.Import | ast.ImportFrom | ast.If):
            decorators: list[ast.expr] = getattr(node, "decorator_list", [])
            return min([node.lineno, *(item.lineno for item in decorators)]) - 1
    return module.lines


def shape(modules: dict[str, Module]) -> Iterator[tuple[str, str]]:
    """Yield the rows on imports and functions."""
    edges = {name: imported(name, module, modules) - {name} for name, module in modules.items()}
    importers = [
        sum(name in targets for targets in edges.values()) for name in modules if not is_package(modules[name])
    ]
    long = sum(
        (node.end_lineno or node.lineno) - node.lineno + 1 > LONG_FUNCTION
        for module in modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    folders: Edges = {place(name)[-1]: set() for name in modules}
    into_plugins = set()
    for name, targets in edges.items():
        for other in targets:
            if place(other) != place(name):
                folders[place(name)[-1]].add(place(other)[-1])
                if place(other)[0] == PLUGINS:
                    into_plugins.add((name, other))
    circles = circles_of(folders)
    back = sum(other in circle for circle in circles for name in circle for other in folders[name])
    yield "files that one other file alone imports", str(importers.count(1))
    yield f"functions over {LONG_FUNCTION} lines", str(long)
    yield "import cycles of modules", str(len(circles_of(edges)))
    yield "arrows between folders on a circle", str(back)
    yield "imports of plug-ins from outside them", str(len(into_plugins))


def place(name: str) -> tuple[str, ...]:
    """Return the folder at the top that holds a module; of a plug-in, `plugins` and its own."""
    parts = name.split(".")[1:]
    return tuple(parts[:2]) if parts[:1] == [PLUGINS] else tuple(parts[:1]) or ("saccade",)


def is_package(module: Module) -> bool:
    """Return whether a module is the `__init__.py` of a folder."""
    return module.path.name == "__init__.py"


def imported(name: str, module: Module, modules: dict[str, Module]) -> set[str]:
    """Return the modules of the package that an import anywhere in a module names."""
    found = set()
    package = name.split(".") if is_package(module) else name.split(".")[:-1]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            full = {f"{base}.{alias.name}" for alias in node.names}
            found |= {item if item in modules else base for item in full}
    return found & modules.keys()


def circles_of(edges: Edges) -> list[set[str]]:
    """Return the sets of two or more nodes that reach each other."""
    reached = {name: reachable(name, edges) for name in edges}
    sets = {frozenset(o for o in reached[name] if name in reached[o]) for name in edges if name in reached[name]}
    return [set(circle) for circle in sets if len(circle) > 1]


def reachable(start: str, edges: Edges) -> set[str]:
    """Return every node that can be reached from `start` by one edge or more."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for other in edges[waiting.pop()] - found:
            found.add(other)
            waiting.append(other)
    return found


def loads(root: Path, modules: dict[str, Module]) -> Iterator[tuple[str, str]]:
    """Yield the rows on what runs."""
    count, lines, above = run(root, ASK + LOADED)
    yield "own modules that `ask` loads / their lines", f"{count} / {lines:,}"
    yield "frames above the model call in `ask`", str(above)
    train = next(
        name
        for name, module in modules.items()
        if {"saccade", "rl"} <= set(name.split("."))
        and PLUGINS not in name
        and any(isinstance(node, ast.FunctionDef) and node.name == "train" for node in module.tree.body)
    )
    with tempfile.TemporaryDirectory(prefix="house-") as scratch:
        run(root, CHECKPOINT + LOADED, scratch)
        count, lines, _ = run(root, RL + LOADED, scratch, train)
    yield "own modules that one step of `rl` loads / their lines", f"{count} / {lines:,}"


def run(root: Path, code: str, *arguments: str) -> tuple[int, int, int]:
    """Run a program on the package in `root`: modules loaded, their lines, and what it counted."""
    path = os.pathsep.join([str(root / "src"), str(root)])
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"a program to be measured failed:\n{done.stderr}")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("LOADED "))
    count, lines, above = map(int, line.split()[1:])
    return count, lines, above


if __name__ == "__main__":
    main(sys.argv[1:])
