"""Repairs: each does its one thing, says so, and leaves everything else alone."""

from __future__ import annotations

import ast
import importlib.util
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.guest.cells import Guest, Start

from saccade.guest.repairs import (
    PASSES,
    RepairContext,
    clip,
    compiles,
    find_passes,
    repair_text,
    repair_tree,
    repairing,
)


def text(code: str, *names: str) -> tuple[str, list[str]]:
    log: list[str] = []
    fixed = repair_text(code, find_passes(names), lambda name, note: log.append(f"{name}: {note}"))
    return fixed, log


def tree(code: str, name: str, **names: object) -> tuple[str, RepairContext, list[str]]:
    log: list[str] = []
    aliases = {"/mnt/data": "/workspace", "/mnt/data/x.png": "/workspace/images/x.png", "pic": "p"}
    context = RepairContext(dict(names), aliases)
    parsed = ast.parse(code)
    repair_tree(parsed, find_passes([name]), context, lambda _name, note: log.append(note))
    return ast.unparse(parsed), context, log


def test_registry() -> None:
    assert all(item.summary.endswith(".") for item in PASSES.values())
    assert [item.name for item in find_passes(["clamp_crop", "code_fence"])] == ["code_fence", "clamp_crop"]
    with pytest.raises(ValueError, match=r"unknown repairs no_such.*missing_import"):
        find_passes(["no_such"])


FENCED = "x = 1\nprint(x)"


@pytest.mark.parametrize(
    "code",
    [
        f"```python\n{FENCED}\n```",
        f"```\n{FENCED}\n```\n",
        f"\n```py\n{FENCED}",
        f"{FENCED}\n```",
        f"~~~python3\n{FENCED}\n~~~",
        f"  ```python\n{FENCED}\n  ```  ",
    ],
)
def test_code_fence(code: str) -> None:
    fixed, log = text(code, "code_fence")
    assert compiles(fixed)
    assert fixed.count("\n") == code.count("\n")
    assert fixed.strip() == FENCED
    assert len(log) == 1


@pytest.mark.parametrize("code", [FENCED, "s = '''\n```python\n'''", "", "x = = 1", "```python x = 1```"])
def test_code_fence_leaves_the_rest_alone(code: str) -> None:
    assert text(code, "code_fence") == (code, [])


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("    x = 1\n    y = 2", "x = 1\ny = 2"),
        ("\tx = 1\n\ty = 2", "x = 1\ny = 2"),
        ("  x = 1\ny = 2", "x = 1\ny = 2"),
        ("x = 1\n    y = 2\n    z = 3", "x = 1\ny = 2\nz = 3"),
        ("    for i in r:\n        a(i)\n    b()", "for i in r:\n    a(i)\nb()"),
        ("for i in r:\n        a(i)\n    b()", "for i in r:\n    a(i)\nb()"),
        ("  for i in r:\n    a(i)\nb()", "for i in r:\n    a(i)\nb()"),
        ("\n    # a\n    x = (1,\n  2)\n# b\n    y = 2", "\n# a\nx = (1,\n2)\n# b\ny = 2"),
    ],
)
def test_stray_indent(code: str, wanted: str) -> None:
    fixed, log = text(code, "stray_indent")
    assert fixed == wanted
    assert len(log) == 1


def test_stray_indent_does_not_move_text_in_strings() -> None:
    code = '    s = """\n    kept\n  kept too\n    """\n    t = f"""\n    {s}\n"""\n    print(s)'
    fixed, _ = text(code, "stray_indent")
    found: dict[str, str] = {}
    exec(fixed, found)
    assert found["s"] == "\n    kept\n  kept too\n    "
    assert found["t"] == f"\n    {found['s']}\n"
    assert fixed.count("\n") == code.count("\n")


@pytest.mark.parametrize(
    "code",
    [
        "while True:\n    x = 1",
        "if a:\n        x = 1\n        y = 2",
        "x = 1\n",
        "def f():\n  return 1",
        "    x = = 1",
        "if True:\nx = 1",
        "",
        "   ",
    ],
)
def test_stray_indent_leaves_the_rest_alone(code: str) -> None:
    assert text(code, "stray_indent") == (code, [])


PROGRAMS = st.recursive(
    st.sampled_from(["x = 1", "print('a')", "f = f'{1.5:.2f}'", "s = '''\n  a\nb'''", "# note\npass"]),
    lambda inner: st.builds(
        lambda head, body: head + "\n" + "\n".join("    " + line for line in "\n".join(body).split("\n")),
        st.sampled_from(["if True:", "for i in range(2):", "while False:"]),
        st.lists(inner.filter(lambda code: "'''" not in code), min_size=1, max_size=3),
    ),
    max_leaves=6,
)


@given(st.lists(PROGRAMS, min_size=1, max_size=3), st.sampled_from(["", " ", "    ", "\t"]))
def test_an_indented_program_means_the_same(blocks: list[str], indent: str) -> None:
    code = "\n".join(blocks)
    if indent == "\t" and "'''" in code:
        return
    moved = "\n".join(
        line if inside else indent + line for line, inside in zip(code.split("\n"), in_strings(code), strict=True)
    )
    fixed, log = text(moved, "code_fence", "stray_indent")
    assert ast.dump(ast.parse(fixed)) == ast.dump(ast.parse(code))
    assert bool(log) == bool(indent)


def in_strings(code: str) -> list[bool]:
    inside = False
    found = []
    for line in code.split("\n"):
        found.append(inside)
        inside ^= line.count("'''") % 2 == 1
    return found


@pytest.mark.parametrize("name", PASSES)
def test_numbers_and_formats_are_never_changed(name: str) -> None:
    code = "s = f'{1.5:.2f} {2:>8} {x!r:{w}.{p}}'\nt = '%.3f' % 1e-7\nu = '{:.1f}'.format(0.10)\nv = 1_000.50"
    assert text(code, name) == (code, [])
    assert tree(code, name) == (ast.unparse(ast.parse(code)), RepairContext({}, tree("", name)[1].path_aliases), [])


def test_missing_import_binds_what_is_used_and_unbound() -> None:
    code = "a = np.zeros(2)\nplt.figure()\nImage.new('L', (1, 1))\nos.getcwd(); json.dumps(1); re.I\nuuid.UUID"
    _, context, log = tree(code, "missing_import")
    assert set(context.namespace) == {"np", "plt", "Image", "os", "json", "re", "uuid"}
    assert context.namespace["np"] is np
    assert len(log) == 7


@pytest.mark.parametrize(
    "code",
    [
        "import numpy as np\nnp.zeros(2)",
        "np = 5\nnp.real",
        "def f(np): return np.zeros(2)",
        "for np in []: np.a",
        "with open('x') as io: io.read()",
        "try: pass\nexcept ValueError as re: re.args",
        "from mine import np\nnp.array",
        "[math.x for math in []]",
        "lambda os: os.path",
        "match 5:\n    case {'a': np, **re}: np.zeros, re.compile",
        "if (io := 3): io.BytesIO",
        "global string\nstring.digits",
        "class json: pass\njson.dumps",
        "string.upper()",
        "random.shuffled",
        "print(string)",
        "unknown.thing",
        "np",
    ],
)
def test_missing_import_leaves_the_rest_alone(code: str) -> None:
    same, context, log = tree(code, "missing_import")
    assert (same, dict(context.namespace), log) == (ast.unparse(ast.parse(code)), {}, [])


def test_missing_import_respects_the_session() -> None:
    _, context, log = tree("np.zeros(2)", "missing_import", np="mine")
    assert (context.namespace, log) == ({"np": "mine"}, [])


@pytest.mark.skipif(importlib.util.find_spec("cv2") is None, reason="OpenCV is not installed")
@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("import cv4", "import cv2 as cv4"),
        ("import cv as c, os", "import cv2 as c, os"),
        ("from cv3 import imread as r", "from cv2 import imread as r"),
    ],
)
def test_cv_for_cv2_imports(code: str, wanted: str) -> None:
    fixed, context, log = tree(code, "cv_for_cv2")
    assert (fixed, dict(context.namespace), len(log)) == (wanted, {}, 1)


@pytest.mark.skipif(importlib.util.find_spec("cv2") is None, reason="OpenCV is not installed")
def test_cv_for_cv2_names() -> None:
    _, context, log = tree("a = cv.imread('x')\ncv4.resize(a)", "cv_for_cv2")
    assert set(context.namespace) == {"cv", "cv4"}
    assert all(isinstance(value, ModuleType) for value in context.namespace.values())
    assert len(log) == 2
    for code in ("import cv2 as cv\ncv.imread", "cv = 5\ncv.real", "cv2.imread", "print(cv)"):
        assert tree(code, "cv_for_cv2")[2] == []
    assert tree("cv.imread", "cv_for_cv2", cv=3)[2] == []


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("open('/mnt/data/a.txt')", "open('/workspace/a.txt')"),
        ("open('/mnt/data')", "open('/workspace')"),
        ("open('/mnt/data/x.png')", "open('/workspace/images/x.png')"),
        ("f'/mnt/data/{name}.png'", "f'/workspace/{name}.png'"),
        ("f\"{open('/mnt/data/a')!r:>{w}}\"", "f\"{open('/workspace/a')!r:>{w}}\""),
        ("x = 'pic'", "x = 'p'"),
        ("d['pic']", "d['p']"),
    ],
)
def test_path_alias(code: str, wanted: str) -> None:
    fixed, _, log = tree(code, "path_alias")
    assert fixed == ast.unparse(ast.parse(wanted))
    assert len(log) == 1


@pytest.mark.parametrize(
    "code",
    [
        "'/mnt/database'",
        "'see /mnt/data/a'",
        "f'{x}/mnt/data/a'",
        "f'/mnt/data{x}'",
        "b'/mnt/data/a'",
        "picture = 'pics'",
    ],
)
def test_path_alias_leaves_the_rest_alone(code: str) -> None:
    code = f"x = {code}" if "=" not in code else code
    assert tree(code, "path_alias")[::2] == (ast.unparse(ast.parse(code)), [])


BOXES = st.tuples(*[st.floats(-50, 150) | st.integers(-50, 150)] * 4)


@given(BOXES)
def test_clipped_boxes_lie_in_the_image(box: tuple[float, float, float, float]) -> None:
    image = Image.new("L", (80, 60))
    try:
        clipped = clip(box, 80, 60)
    except ValueError as error:
        assert "leaves nothing" in str(error)  # noqa: PT017
        return
    left, upper, right, lower = box if clipped is None else clipped
    assert 0 <= left <= right <= 80
    assert 0 <= upper <= lower <= 60
    assert min(image.crop((left, upper, right, lower)).size) > 0


def test_clip_by_example() -> None:
    assert clip((1, 2, 3, 4), 10, 10) is None
    assert clip((-5, 2, 30, 4), 10, 10) == (0, 2, 10, 4)
    assert clip((8, 9, 3, 2), 10, 10) == (3, 2, 8, 9)
    assert clip(np.array([0.5, -1, 4, 4]), 10, 10) == (0.5, 0, 4, 4)
    for odd in (None, "abcd", (1, 2, 3), (1, 2, 3, float("nan")), (1, 2, 3, "4a"), 5):
        assert clip(odd, 10, 10) is None
    with pytest.raises(ValueError, match="10 pixels wide"):
        clip((20, 20, 30, 30), 10, 10)


ALL = tuple(PASSES)


def test_repairs_are_off_unless_named(guest: Guest) -> None:
    for code in ("np.zeros(2)", "    x = 1\ny = 2", "```python\nx = 1\n```", "import cv4"):
        result = guest.run(code)
        assert (result.status, result.repaired) == ("error", [])


def test_repairs_in_a_cell(start: Start) -> None:
    guest = start(repairs=ALL, path_aliases={"/mnt/data": "."})
    guest.run("open('a.txt', 'w').write('found')")
    code = """```python
    print(np.zeros(1), open('/mnt/data/a.txt').read())
    im = Image.new("RGB", (10, 10)).crop((-5, 8, 20, 4))
    im.size
```"""
    result = guest.run(code)
    assert (result.status, result.stdout, result.value) == ("ok", "[0.] found\n", "(10, 4)")
    assert result.repaired == [
        "code_fence", "stray_indent", "missing_import", "missing_import", "path_alias", "clamp_crop",
    ]  # fmt: skip
    assert guest.run("x = 1").repaired == []


def test_lines_of_tracebacks_are_right_after_repairs(start: Start) -> None:
    guest = start(repairs=ALL)
    result = guest.run("```python\n    x = np.zeros(1)\n    y = 1 / 0\n```")
    assert 'File "<cell 1>", line 3, in <module>' in result.traceback
    assert "y = 1 / 0" in result.traceback


def test_empty_crop_is_a_clear_error(start: Start) -> None:
    guest = start(repairs=("clamp_crop", "missing_import"))
    result = guest.run("Image.new('L', (10, 20)).crop((15, 0, 30, 9))")
    assert "ValueError: crop box (15, 0, 30, 9)" in result.traceback
    assert "10 pixels wide and 20 pixels high" in result.traceback
    assert "clamp_crop.py" not in result.traceback


def test_many_crops_are_logged_briefly(start: Start) -> None:
    guest = start(repairs=("clamp_crop",))
    guest.run("from PIL import Image\nim = Image.new('L', (9, 9))")
    result = guest.run("for i in range(500): im.crop((-i - 1, 0, 3, 3))")
    assert (result.status, len(result.repaired)) == ("ok", 21)


def test_crop_is_as_before_after_the_cell() -> None:
    original = Image.Image.crop
    log: list[str] = []
    with repairing(find_passes(["clamp_crop"]), lambda _name, note: log.append(note)):
        assert Image.new("L", (9, 9)).crop((-1, 0, 3, 3)).size == (3, 3)
        assert Image.new("L", (9, 9)).crop().size == (9, 9)
    assert Image.Image.crop is original
    assert log == ["crop box (-1, 0, 3, 3) was clipped to (0, 0, 3, 3) in an image of 9x9"]


def test_a_failing_cell_tells_its_repairs(start: Start) -> None:
    result = start(repairs=("missing_import",)).run("np.zeros(1)\n1 / 0")
    assert (result.status, result.repaired) == ("error", ["missing_import"])
