"""Wheel and sdist of this tree, built, and environments of their own that they are installed into."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements" / "lock.txt"
PYTHONS = ("3.11", "3.12", "3.13")


@dataclass(frozen=True)
class Built:
    sdist: Path
    source: Path
    """The sdist, unpacked."""
    wheel: Path
    """Built from the sdist."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and an empty folder in which commands run."""

    bin: Path
    folder: Path

    def run(self, *command: str, code: int = 0, **more: str) -> str:
        """Run a program of the environment; what it printed. Fails the test unless it ends with `code`."""
        done = subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=self.folder,
            env=variables() | {"HOME": str(self.folder)} | more,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == code, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def has(self, package: str) -> bool:
        code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
        return subprocess.run([self.bin / "python", "-c", code], cwd=self.folder, check=False).returncode == 0


def variables() -> dict[str, str]:
    """The environment without what would lead Python to this tree or to packages of somebody else."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def build(folder: Path) -> Built:
    """The sdist of this tree, and the wheel of that sdist; those that `folder` holds already, if it does."""
    if not any(folder.glob("*.whl")):
        _hatchling(ROOT, "sdist", folder)
        (sdist,) = folder.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        _hatchling(folder / sdist.name.removesuffix(".tar.gz"), "wheel", folder)
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return Built(sdist, folder / sdist.name.removesuffix(".tar.gz"), wheel)


def _hatchling(source: Path, target: str, folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def install(
    built: Built, python: str, folder: Path, extras: Sequence[str] = (), *, pinned: bool = False
) -> Environment:
    """A new environment that holds the wheel and what it asks for: the newest of it, or the pinned versions.

    Skips the test where there is no package index.
    """
    need_index()
    environment = Environment(folder / "venv" / "bin", folder / "work")
    environment.folder.mkdir(parents=True)
    make = [python, "-m", "venv", "--without-pip", str(folder / "venv")]
    subprocess.run(make, env=variables(), check=True, capture_output=True)
    wanted = f"{built.wheel}[{','.join(extras)}]" if extras else str(built.wheel)
    command = ["--python", str(environment.bin / "python"), "install", "--no-compile", wanted]
    done = _pip(*command, *(["--constraint", str(LOCK)] if pinned else []))
    assert done.returncode == 0, done.stderr
    return environment


def need_index() -> None:
    """Skip the test, with pip's own words, where no package index can be reached."""
    reason = _no_index()
    if reason:
        pytest.skip(f"no package index can be reached: {reason}")


@cache
def _no_index() -> str:
    # A package that is not installed and has no dependencies: only its place is asked for, nothing is installed.
    command = ["install", "--dry-run", "--no-deps", "--ignore-installed", "--retries", "0", "--timeout", "20", "idna"]
    done = _pip(*command)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]


def _pip(*command: str) -> subprocess.CompletedProcess[str]:
    full_command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *command]
    return subprocess.run(full_command, env=variables(), capture_output=True, text=True, check=False)


@cache
def pythons() -> dict[str, str]:
    """Version -> interpreter, of those that start: on the path, and those of pyenv."""
    found = {}
    for version in PYTHONS:
        names = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
        for name in filter(None, map(str, filter(None, names))):
            code = "import sys, json, venv, ctypes; print(json.dumps(sys.version_info[:2]))"
            done = subprocess.run([name, "-c", code], env=variables(), capture_output=True, text=True, check=False)
            if done.returncode == 0 and json.loads(done.stdout) == [int(part) for part in version.split(".")]:
                found[version] = name
                break
    return found
