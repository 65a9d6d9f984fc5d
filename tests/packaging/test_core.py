"""The core without its plug-ins: it starts, says what is missing, asks, and passes its own tests.

A copy of the tree without `plugins/` folders comes first on the path, with metadata that registers no plug-in. Tests of
the core that use a plug-in's part are skipped there: by what they are told (tests/conftest.py), or because NAMED lists
them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from PIL import Image
from tests.packaging.environments import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux"),
]
NAMED = (Path(__file__).parent / "needs_plugins.txt").read_text(encoding="utf-8").split()
"""Tests of the core that expect parts of a plug-in in a list, a page or a count, so nothing tells them of it; and one
that copies the environment for another user, to whom this tree is not installed."""
FOLDERS = (
    "core record media models sandbox dialects tasks grading tools episode tokens rewards evals training report cli"
)
TURNS = ["<code>\n```python\nprint(image_clue_0.size)\n```\n</code>", "<answer>red</answer>"]


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy."""
    folder = tmp_path_factory.mktemp("core")
    left_out = shutil.ignore_patterns("plugins", "__pycache__", ".*")
    for name in ("src", "tests", "tools", "docs", "examples", "benchmarks", "requirements"):
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / "src" / f"saccade_vlm-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: saccade-vlm\nVersion: {project['version']}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        own = [f"{name} = {target}" for name, target in entries.items() if not target.startswith("saccade.plugins.")]
        lines += [f"[{group}]", *own]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


def run(core: Path, *arguments: str, code: int = 0) -> str:
    """Run `python -m ...` on the core, and return what it printed. Fails the test unless it ends with `code`."""
    variables = os.environ | {"PYTHONPATH": str(core / "src"), "COLUMNS": "400"}
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=core, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{done.stdout[-8000:]}\n{done.stderr[-4000:]}"
    return done.stdout + done.stderr


def test_it_starts_and_asks(core: Path) -> None:
    listed = run(core, "saccade", "--help")
    assert re.search(r"^ +ask +Ask a model", listed, re.MULTILINE)
    assert not re.search(r"^ +(demo|serve|worlds|mcp) ", listed, re.MULTILINE)
    assert "All required layers are on" in run(core, "saccade", "doctor")
    Image.new("RGB", (80, 60), "red").save(core / "photo.png")
    (core / "turns.json").write_text(json.dumps(TURNS))
    options = ("--model", "scripted:turns.json", "--dialect", "pyvision", "--json")
    assert json.loads(run(core, "saccade", "ask", "photo.png", "Which colour?", *options))["answer"] == "red"


@pytest.mark.parametrize(
    ("plugin", "arguments"),
    [
        ("worlds", "demo"),
        ("worlds", "worlds list"),
        ("worlds", "eval world:shape-count --model scripted:turns.json --n 1 --out run"),
        ("worlds", "ask photo.png What? --model tiny"),
        ("serve", "serve"),
        ("integrations", "openenv"),
        ("vista", 'ask photo.png What? --model scripted:turns.json --dialect vista --set tools=["ocr"]'),
    ],
)
def test_a_name_of_a_plug_in_says_which_is_missing(core: Path, plugin: str, arguments: str) -> None:
    Image.new("RGB", (80, 60), "red").save(core / "photo.png")
    (core / "turns.json").write_text(json.dumps(TURNS))
    assert f"plug-in `{plugin}`, which is not installed" in run(core, "saccade", *arguments.split(), code=2)


@pytest.mark.parametrize("folder", FOLDERS.split())
def test_its_own_tests_pass(core: Path, folder: str) -> None:
    left_out = [f"--deselect={name}" for name in NAMED if name.startswith(f"tests/{folder}/")]
    said = run(core, "pytest", "-q", "-p", "no:cacheprovider", f"tests/{folder}", *left_out)
    assert re.search(r"\d+ passed", said)
