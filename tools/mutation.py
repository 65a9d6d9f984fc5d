"""Draws small faults with a seed, puts each into a copy of the source, and prints those that no test notices.

`make mutation` draws from the files changed since the revision `--since`, or from the paths it is given. A fault is
found if a test of the mirrored folder fails; `--wide` tries the others against the whole default suite as well.
It does not know which faults change nothing that can be observed: a survivor is a place to look at.

mutmut and cosmic-ray do not fit: the first rewrites every function into a trampoline, which the code inside the jail
cannot import; the second keeps no seed over a subset of files.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parent.parent
COMPARISONS = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
MEMORY = 6 * 2**30
"""Bytes that one run of tests may hold: a loop that no longer ends may eat all there is."""
SWAPPED_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One fault: bytes `start` to `end` of `file` (relative to the repository) become `text`."""

    file: str
    line: int
    kind: str
    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        """The source with the fault in it."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def shown(self, source: bytes) -> str:
        """The fault in one line, for a person."""
        before = " ".join(source[self.start : self.end].decode().split())
        return f"{self.file}:{self.line}  {self.kind}: {before[:90]!r} -> {self.text!r}"


def mutations(file: str, source: bytes) -> list[Mutation]:
    """Every fault that can be put into `source`, in the order of the text; each of them still compiles."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, kind, text in _faults(ast.parse(source)):
        start, end = (
            starts[node.lineno - 1] + node.col_offset,
            starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0),
        )
        mutation = Mutation(file, node.lineno, kind, start, end, text)
        with contextlib.suppress(SyntaxError):
            compile(mutation.apply(source), file, "exec", dont_inherit=True)
            found.append(mutation)
    return sorted(found, key=lambda item: (item.start, item.end, item.kind))


def _faults(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
            yield node, "comparison", f"({left}) {COMPARISONS[type(node.ops[0])]} ({right})"
        elif isinstance(node, ast.BoolOp):
            word = " or " if isinstance(node.op, ast.And) else " and "
            yield node, "and/or", "(" + word.join(f"({ast.unparse(value)})" for value in node.values) + ")"
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            yield node.test, "condition", f"(not ({ast.unparse(node.test)}))"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SWAPPED_CALLS:
            yield node.func, "min/max", SWAPPED_CALLS[node.func.id]
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node, "constant", f"({node.value!r} + 1)"
        elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield node, "return", "return None"
        elif _can_go(node):
            yield node, "statement", "pass"
        elif isinstance(node, ast.ExceptHandler):
            first, last = node.body[0], node.body[-1]
            span = ast.Pass(lineno=first.lineno, col_offset=first.col_offset)
            span.end_lineno, span.end_col_offset = last.end_lineno, last.end_col_offset
            yield span, "handler", "raise"
        elif isinstance(node, ast.Slice):
            for bound in (node.lower, node.upper):
                if bound is not None:
                    yield bound, "slice", f"({ast.unparse(bound)}) + 1"


def _can_go(node: ast.AST) -> TypeGuard[ast.stmt]:
    call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
    return call or isinstance(node, ast.Raise | ast.Break | ast.Continue)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


@cache
def mirrored(file: str, root: Path = ROOT) -> list[str]:
    """The test files of the nearest folder that mirrors a module's, those first that probably notice a fault.

    That is the one that bears its name, then those that import it. Files, not folders: pytest takes a file beside the
    folder that it lies in as the folder alone.
    """
    inner = Path(file).relative_to("src/saccade").with_suffix("")
    folder = root / "tests" / inner.parent
    named = folder / f"test_{inner.name}.py"
    while not (files := sorted(folder.rglob("test_*.py"))):
        folder = folder.parent
    module = re.compile(rf"\b{re.escape('.'.join(('saccade', *inner.parts)))}\b")
    files.sort(key=lambda path: (path != named, module.search(path.read_text(encoding="utf-8")) is None))
    return [path.relative_to(root).as_posix() for path in files]


def changed(since: str) -> list[str]:
    """Source files that differ from the revision `since`, in the working tree."""
    command = ["git", "diff", "--name-only", "--diff-filter=d", since, "--", "src/saccade"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [name for name in listed if name.endswith(".py")]


def _ignored(folder: str, names: list[str]) -> set[str]:
    made = {"runs", "build", "dist"} if Path(folder) == ROOT else set()  # only at the top: the package has a `runs` too
    return {name for name in names if name.startswith(".") or name == "__pycache__" or name in made}


class Copy:
    """A copy of the repository with an interpreter that imports it and the installed packages, never the original."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "saccade"
        shutil.copytree(ROOT, self.root, ignore=_ignored)
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        self.python = folder / "venv" / "bin" / "python"
        site = next((folder / "venv" / "lib").glob("python*/site-packages"))
        # The .pth files in a folder that a .pth file names are not read: not the editable install of the original.
        (site / "copy.pth").write_text(f"{self.root / 'src'}\n{sysconfig.get_paths()['purelib']}\n", encoding="utf-8")
        script = folder / "venv" / "bin" / "saccade"
        script.write_text(f"#!{self.python}\nfrom saccade.cli.main import main\nmain()\n", encoding="utf-8")
        script.chmod(0o755)

    def passes(self, tests: list[str], seconds: float) -> bool:
        """Whether the tests pass.

        A run that takes longer than `seconds` or more memory than `MEMORY`, or dies, counts as failed.
        """
        command = [str(self.python), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header"]
        command += ["--basetemp", str(self.root.parent / "tests"), *tests]
        # To a file: what a faulty program leaves running would keep a pipe open.
        with (self.root.parent / "said").open("w", encoding="utf-8") as said:
            process = subprocess.Popen(
                command,
                cwd=self.root,
                # Tests notice more with all their examples and variants.
                env={**os.environ, "HYPOTHESIS_PROFILE": "full", "ALL_VARIANTS": "1"},
                start_new_session=True,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
            try:
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (MEMORY, MEMORY))
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                return False
            finally:  # after an interrupt too
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if code > 2:  # 2: a test file cannot be imported with the fault in it
                raise SystemExit(f"pytest itself failed ({code}):\n{self.said()}")
        return code == 0

    def said(self) -> str:
        """The end of what the last run printed."""
        return (self.root.parent / "said").read_text(encoding="utf-8")[-2000:]


def survives(copy: Copy, mutation: Mutation, tests: list[str], seconds: float) -> bool:
    """Whether the tests pass with the fault in the copy; the copy is whole again afterwards."""
    path = copy.root / mutation.file
    source = path.read_bytes()
    path.write_bytes(mutation.apply(source))
    try:
        return copy.passes(tests, seconds)
    finally:
        path.write_bytes(source)


def main() -> None:
    """Draw, try, print; exit code 1 if fewer faults are found than `--floor` asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="files or folders under src/saccade  [default: what changed]")
    parser.add_argument("--since", default="HEAD~1", help="revision that the changed files are compared with")
    parser.add_argument("--draw", type=int, default=30, help="how many faults")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--floor", type=float, default=0.95, help="share that must be found")
    parser.add_argument("--seconds", type=float, default=600.0, help="limit of one run of tests")
    parser.add_argument("--tests", nargs="+", help="run these and not the mirrored ones, where the folder takes long")
    parser.add_argument("--wide", action="store_true", help="try survivors against the whole default suite too")
    given = parser.parse_args()
    files = [p.relative_to(ROOT).as_posix() for name in given.paths for p in _python(ROOT / name)] or changed(
        given.since
    )
    sources = {name: (ROOT / name).read_bytes() for name in files}
    drawn = drawing(sources, given.draw, given.seed)
    if not drawn:
        raise SystemExit("nothing to draw from: no Python file under src/saccade changed; name one, or --since REV")
    print(f"{len(drawn)} faults from {len(files)} files, seed {given.seed}", flush=True)
    left, begun = [], time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended; nothing is left behind"))
    with tempfile.TemporaryDirectory(prefix="saccade-mutation-") as folder:
        copy = Copy(Path(folder))
        tests = {mutation.file: given.tests or mirrored(mutation.file) for mutation in drawn}
        sound = sorted({test for chosen in tests.values() for test in chosen})
        if not copy.passes(sound, given.seconds):
            raise SystemExit(f"the tests fail without any fault:\n{copy.said()}")
        for number, mutation in enumerate(drawn, 1):
            start = time.monotonic()
            lives = survives(copy, mutation, tests[mutation.file], given.seconds)
            if lives and given.wide:
                lives = survives(copy, mutation, ["-n", "2", "tests"], 6 * given.seconds)
            word = "SURVIVED" if lives else "found"
            took = time.monotonic() - start
            print(f"{number:3} {word:8} {took:4.0f} s  {mutation.shown(sources[mutation.file])}", flush=True)
            left += [mutation] if lives else []
    share = 1 - len(left) / len(drawn)
    print(f"{len(drawn) - len(left)} of {len(drawn)} found ({share:.1%}) in {time.monotonic() - begun:.0f} s")
    sys.exit(share < given.floor)


def drawing(sources: dict[str, bytes], count: int, seed: int) -> list[Mutation]:
    """`count` faults over all files, each equally likely; the same ones for the same sources and seed."""
    every = [mutation for name in sorted(sources) for mutation in mutations(name, sources[name])]
    return random.Random(seed).sample(every, min(count, len(every)))


def _python(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


if __name__ == "__main__":
    main()
