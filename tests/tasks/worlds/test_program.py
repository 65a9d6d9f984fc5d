"""Programs made of functions: complete, and without what only this package knows."""

from __future__ import annotations

import ast
import io
from contextlib import redirect_stdout

from saccade.tasks.worlds import chart_reading, geometry_reading, reading, table_reading, video_reading
from saccade.tasks.worlds.program import compose


def test_a_single_function_brings_its_imports() -> None:
    program = compose(video_reading.boundary, last="print(boundary(0, 10, lambda frame: frame > 6))")
    out = io.StringIO()
    with redirect_stdout(out):
        exec(program, {"__name__": "__main__"})
    assert out.getvalue() == "7\n"


def test_programs_import_only_what_the_sandbox_has() -> None:
    program = compose(reading, chart_reading, table_reading, geometry_reading, video_reading, last="print(1)")
    tree = ast.parse(program)
    names = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    names |= {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names == {"__future__", "collections", "cv2", "functools", "math", "matplotlib", "numpy", "PIL", "typing"}
    assert "saccade" not in program


def test_the_same_parts_make_the_same_program() -> None:
    assert compose(reading, last="print(1)") == compose(reading, last="print(1)\n")
