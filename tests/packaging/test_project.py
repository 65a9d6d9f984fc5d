"""What pyproject.toml says of the project agrees with what else says so."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version

from tests.packaging.environments import LOCK, PYTHONS, ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]


def test_the_version_is_the_one_that_the_changelog_writes_about() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == PROJECT["version"]
    assert version("saccade") == PROJECT["version"], "installed before the version changed: make setup"


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
    assert wanted - {"saccade"} <= pinned
