"""What pyproject.toml, the Containerfile and the site say of the project agrees with what else says so."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from tests.packaging.environments import LOCK, PYTHONS, ROOT

import saccade

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]


def test_the_version_is_the_one_that_the_changelog_writes_about() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == PROJECT["version"]
    assert version("saccade-vlm") == PROJECT["version"], "installed before the version changed: make setup"


def test_the_pythons_that_are_named_are_those_that_are_tried() -> None:
    named = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line}
    assert named == set(PYTHONS)
    assert f">={min(PYTHONS, key=lambda name: int(name[2:]))}" == PROJECT["requires-python"]


def test_the_build_is_held_to_releases_that_it_was_met_with() -> None:
    pinned = dict(line.split("==") for line in LOCK.read_text(encoding="utf-8").splitlines() if "==" in line)
    for wanted in PYPROJECT["build-system"]["requires"]:
        name, least, below = re.fullmatch(r"(\w+)>=([\d.]+),<(\d+)", wanted).groups()  # type: ignore[union-attr]
        assert pinned[name].split(".")[0] in (least.split(".")[0], str(int(below) - 1)), (wanted, pinned[name])
        assert f"'{wanted}'" in (ROOT / "requirements" / "lock.sh").read_text(encoding="utf-8")


def test_every_package_of_the_extra_dev_is_pinned() -> None:
    pinned = {
        line.partition("==")[0].lower().replace("_", "-") for line in LOCK.read_text(encoding="utf-8").splitlines()
    }
    wanted = {
        re.split(r"[^\w.-]", item)[0].lower().replace("_", "-") for item in PROJECT["optional-dependencies"]["dev"]
    }
    assert wanted - {"saccade-vlm"} <= pinned


TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "howto" / "container.md").read_text(encoding="utf-8")
LINES = [
    (word, rest.strip())
    for word, _, rest in (
        line.partition(" ")
        for line in re.sub(r"\\\n", " ", TEXT).splitlines()
        if line.strip() and not line.startswith("#")
    )
]
ARGUMENTS = dict(rest.split("=", 1) for word, rest in LINES if word == "ARG")


def test_python_and_torch_are_ones_that_the_package_takes() -> None:
    assert ARGUMENTS["PYTHON"] in SpecifierSet(PROJECT["requires-python"])
    assert f"Programming Language :: Python :: {ARGUMENTS['PYTHON']}" in PROJECT["classifiers"]
    assert LINES[1] == ("FROM", "docker.io/library/python:${PYTHON}-slim")
    assert f"torch=={ARGUMENTS['TORCH']}" in LOCK.read_text(encoding="utf-8").splitlines()
    (wanted,) = {item for item in PROJECT["optional-dependencies"]["local"] if item.startswith("torch")}
    assert ARGUMENTS["TORCH"] in SpecifierSet(wanted.removeprefix("torch"))


def test_its_extras_are_there() -> None:
    without_torch = re.findall(r"EXTRAS=([\w,]+)", TEXT)
    assert len(without_torch) >= 2
    for extras in without_torch:
        assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


@pytest.mark.slow
def test_what_it_copies_is_there_and_a_wheel_can_be_built_of_it(tmp_path: Path) -> None:
    for word, rest in LINES:
        if word == "COPY":
            *sources, target = shlex.split(rest)
            place = tmp_path / target
            for source in map(ROOT.joinpath, sources):
                assert source.exists(), source
                if source.is_dir():
                    shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    place.mkdir(parents=True, exist_ok=True)
                    shutil.copy(source, place)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "dist").glob("saccade_vlm-*.whl"))) == 1


def test_it_runs_as_no_root_and_starts_what_is_installed() -> None:
    words = [word for word, _ in LINES]
    user = dict(LINES)["USER"]
    assert user not in ("root", "0")
    assert words.index("USER") > max(place for place, word in enumerate(words) if word in ("RUN", "COPY"))
    assert any(word == "RUN" and re.search(rf"useradd\b.* {user}$", rest) for word, rest in LINES)
    assert dict(LINES)["ENTRYPOINT"] == '["saccade"]'
    assert "saccade" in PROJECT["scripts"]


def test_the_page_names_its_arguments_and_every_layer_that_a_container_can_lose() -> None:
    from saccade.sandbox.isolation import WEAKENED, Layer

    for name in ARGUMENTS:
        assert f"`{name}`" in PAGE, name
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", PAGE, re.MULTILINE))
    for name, promises in rows.items():
        if name in {layer.value for layer in Layer}:
            assert promises.strip() == ", ".join(promise.value for promise in WEAKENED[Layer(name)]), name
    never = {Layer.ENVIRONMENT, Layer.RLIMITS, Layer.NO_NEW_PRIVS, Layer.CAPABILITIES, Layer.SECCOMP}
    assert {Layer(name) for name in rows if name in {layer.value for layer in Layer}} == set(Layer) - never


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_site_builds_without_a_warning_and_has_every_public_name(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    tools = tmp_path / "venv" / "bin"
    wanted = ROOT / "requirements" / "docs.txt"
    subprocess.run([tools / "python", "-m", "pip", "install", "--quiet", "--requirement", wanted], check=True)
    command = [tools / "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = "".join(page.read_text(encoding="utf-8") for page in (tmp_path / "site" / "reference").glob("*.html"))
    for homes in saccade.PUBLIC.values():
        for home, names in homes.items():
            for name in names.split():
                assert f'id="saccade.{home}.{name}"' in pages, f"the reference does not have saccade.{name}"
    start = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "runnable" not in (tmp_path / "site" / "tutorial.html").read_text(encoding="utf-8")
    assert 'href="source/README.md.html"' in start
    loaded = re.findall(r'<(?:script|img|source|link rel="(?:stylesheet|icon)")[^>]* (?:src|href)="([^"]+)"', start)
    assert {"images/live.webp", "assets/site.css", "assets/iframe-worker.js"} <= set(loaded)
    assert not [address for address in loaded if ":" in address or address.startswith("//")]
