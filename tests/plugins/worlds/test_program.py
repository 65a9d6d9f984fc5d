"""Programs made of functions: complete, and without what only this package knows."""

from __future__ import annotations

import ast
import io
from contextlib import redirect_stdout

from saccade.plugins.worlds.program import compose
from saccade.plugins.worlds.reading import chart, geometry, kit, pages, video


def test_only_what_is_needed_comes_along() -> None:
    program = compose(kit, video, last="print(show(boundary(0, 10, lambda frame: frame > 6)))")
    out = io.StringIO()
    with redirect_stdout(out):
        exec(program, {"__name__": "__main__"})
    assert out.getvalue() == "7\n"
    assert "cv2" not in program
    assert "blobs_of" not in program


def test_what_a_function_calls_comes_along() -> None:
    program = compose(kit, chart, last="print(bar_marks(rgb))")
    for name in ("bar_marks", "value_scale", "read_text", "typeset", "face_of"):
        assert f"def {name}(" in program
    assert "SIZES = range" in program
    assert "slice_shares" not in program


def test_programs_import_only_what_the_sandbox_has() -> None:
    modules = (kit, chart, pages, geometry, video)
    everything = "; ".join(name for module in modules for name in vars(module) if not name.startswith("_"))
    program = compose(*modules, last=everything)
    tree = ast.parse(program)
    names = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    names |= {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names == {
        "__future__",
        "collections",
        "cv2",
        "fractions",
        "functools",
        "math",
        "matplotlib",
        "numpy",
        "PIL",
        "typing",
    }
    assert "saccade" not in program


def test_the_same_parts_make_the_same_program() -> None:
    assert compose(kit, last="print(show(1))") == compose(kit, last="print(show(1))\n")
