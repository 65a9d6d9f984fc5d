"""Everything but control groups is had by an ordinary user where user namespaces are allowed: run as `nobody`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.providers import linux_only

VERSION = "{}.{}".format(*sys.version_info)
SYSTEM = Path("/usr/bin/python3")
pytestmark = [
    linux_only,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
    pytest.mark.skipif(
        not SYSTEM.exists() or f"python{VERSION}" not in os.path.realpath(SYSTEM),
        reason="needs an interpreter that every user may read, of the version of the installed packages",
    ),
]

Do = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def as_nobody() -> Iterator[Do]:
    """Has `plain_user.py` do something as `nobody`; what it prints."""
    # Not in pytest's own folder, which every run of pytest closes to all users but its own.
    with tempfile.TemporaryDirectory(prefix="saccade-nobody-") as folder:
        yield prepared(Path(folder))


def prepared(folder: Path) -> Do:
    """The same, with an interpreter for `nobody` in `folder`."""
    folder.chmod(0o755)
    source = Path(__file__).parents[2] / "src"
    site = next(path for path in sys.path if path.endswith("site-packages"))
    venv = folder / "venv"
    subprocess.run([SYSTEM, "-m", "venv", "--without-pip", str(venv)], check=True)
    (venv / f"lib/python{VERSION}/site-packages/here.pth").write_text(site + "\n")
    cache = folder / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "XDG_CACHE_HOME": str(cache)}
    python = str(venv / "bin/python")
    program = (Path(__file__).parent / "plain_user.py").read_text()

    def run(what: str) -> dict[str, Any]:
        command = [python, "-B", "-c", program, what, python, str(source), site]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=800)
        assert done.returncode == 0, done.stderr[-2000:]
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    return run


def test_calls_rollbacks_and_branches(as_nobody: Do) -> None:
    report = as_nobody("calls")
    assert report["uid"] == 65534
    assert report["statuses"] == ["ok", "error", "timeout", "ok", "ok"]
    here = "2 ['kept.txt', 'new.txt'] new kept"
    assert report["after"] == here
    assert report["branches"] == ["left ['kept.txt', 'new.txt'] left kept", here, here]
    assert report["pictures"] == 1
    assert {"seccomp", "landlock", "no_new_privs", "capabilities", "rlimits"} <= set(report["layers"])


@pytest.mark.slow
def test_the_zygote_sees_its_sessions_without_a_user_namespace_and_no_session_sees_another(as_nobody: Do) -> None:
    report = as_nobody("contained")
    assert "inspection" in report["layers"]
    assert "user_namespace" not in report["layers"]
    assert report["mapped"] == "b'kept' b'kept'"
    assert report["peeked"] == "13"


@pytest.mark.slow
def test_conformance(as_nobody: Do) -> None:
    report = as_nobody("checks")
    assert report["count"] >= 60
    assert report["failed"] == []


@pytest.mark.slow
def test_attacks_fail(as_nobody: Do) -> None:
    report = as_nobody("attacks")
    assert report["count"] >= 80
    assert report["failed"] == []
