"""`tools/house.py`: what it counts in a package of a few files."""

from __future__ import annotations

from pathlib import Path

from tools.house import parsed, shape, sizes

FILES = {
    "src/saccade/a/one.py": '"""Do one thing."""\n\nfrom saccade.b.two import f\n\n\ndef g() -> None:\n    f()\n',
    "src/saccade/b/two.py": "def f() -> None:\n    from saccade.a import one\n    one.g()\n",
    "src/saccade/plugins/c/three.py": "import saccade.b.two\n" + "x = 1\n" * 3,
    "tests/test_one.py": "a = 1\nb = 2\n",
}


def test_sizes_and_shape(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    modules = parsed(tmp_path / "src/saccade")
    assert dict([*sizes(tmp_path, modules), *shape(modules)]) == {
        "lines of Python in src/saccade, core / all": "10 / 14",
        "files in src/saccade": "3",
        "prologue (before the first definition)": "42.9%",
        "top-level folders of src/saccade": "3",
        "lines of tests": "2",
        "files that one other file alone imports": "1",
        "functions over 60 lines": "0",
        "import cycles of modules": "1",
        "arrows between folders on a circle": "2",
        "imports of plug-ins from outside them": "0",
    }
