"""What was built holds what it should, and works where nothing is installed but what it asks for."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path

import pytest
from PIL import Image
from tests.packaging.environments import PYTHONS, ROOT, Built, Environment, install, pythons

from saccade.dialects.base import load_dialect
from saccade.record.content import Answer, Code

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")

LOOK = """
from PIL import Image
import matplotlib.pyplot as plt
from IPython.display import display
crop = input_image.crop((0, 0, 40, 30))
display(crop)
plt.imshow(crop)
plt.title("crop")
plt.show()
crop.resize((80, 60))
"""


@pytest.mark.slow
def test_the_sdist_holds_what_its_documents_name(built: Built) -> None:
    for document in ("README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))):
        text = (built.source / document).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)", text):
            assert "://" in target or (built.source / document).parent.joinpath(target).exists(), (document, target)
    makefile = (built.source / "Makefile").read_text(encoding="utf-8")
    for named in re.findall(r"\b(?:requirements|tools)/[\w.-]+", makefile):
        assert (built.source / named).exists(), named


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_a_description_without_dead_links(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        text = wheel.read(metadata).decode()
    source = ROOT / "src"
    kept = [path for path in (source / "saccade").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {path.relative_to(source).as_posix() for path in kept} <= names
    assert "saccade/training/recipes/rl/codedance.toml" in names
    assert not any("examples/" in name or "saccade_tiny" in name for name in names)
    head, _, description = text.partition("\n\n")
    assert "MacOS" not in head
    assert "## Installation" in description
    assert [target for target in re.findall(r"\]\(([^)]*)\)", description) if not target.startswith("http")] == []


@pytest.mark.slow
def test_the_bare_wheel(built: Built, tmp_path: Path) -> None:
    """In the interpreter of this suite, with the pinned versions."""
    works(install(built, sys.executable, tmp_path, pinned=True))


@pytest.mark.slow
@pytest.mark.parametrize("version", PYTHONS)
def test_the_bare_wheel_with_the_newest_of_everything(version: str, built: Built, tmp_path: Path) -> None:
    if version not in pythons():
        pytest.skip(f"no Python {version} was found")
    works(install(built, pythons()[version], tmp_path))


def works(bare: Environment) -> None:
    assert not any(bare.has(name) for name in ("IPython", "torch", "gymnasium", "openai", "av"))
    assert "All required layers are on" in bare.run("saccade", "doctor")
    said = bare.run("saccade", "demo", COLUMNS="200")
    assert "reading is known: False" in said
    assert "pip install 'saccade-vlm[local]'" in said
    assert (bare.folder / "runs" / "demo" / "index.html").is_file()
    looks(bare)
    bare.run("saccade", "synth", "touching-circles", "--dialect", "pyvision", "--n", "2", "--out", "expert")
    assert len((bare.folder / "expert" / "trajectories.jsonl").read_text().splitlines()) == 2
    assert "vista-r1" in bare.run("saccade", "rl", "list")
    assert "'codedance'" in bare.run("saccade", "rl", "codedanse", code=2)
    missing = bare.run("saccade", "rl", "codedance", "--model", "m", "--tasks", "shape-count", code=2)
    assert "pip install 'saccade-vlm[train]'" in missing


def looks(bare: Environment) -> None:
    """`saccade ask`: two pictures come back from the sandbox by two ways, a third as a value."""
    dialect = load_dialect("codedance")
    turns = [dialect.write(Code(code=LOOK.strip()), "I look."), dialect.write(Answer(text="42"), "I see.")]
    (bare.folder / "turns.json").write_text(json.dumps(turns))
    Image.new("RGB", (64, 48), "red").save(bare.folder / "photo.png")
    options = ("--model", "scripted:turns.json", "--dialect", "codedance", "--out", "run", "--json")
    assert json.loads(bare.run("saccade", "ask", "photo.png", "What is it?", *options))["answer"] == "42"
    (line,) = (bare.folder / "run" / "trajectories.jsonl").read_text().splitlines()
    done = json.loads(line)["turns"][0]["execution"]
    assert (done["status"], len(done["pictures"])) == ("ok", 3), done
