"""The sandbox inside a container whose engine refuses system calls: it starts, and says what it could not have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox needs Linux")
FILTERED = Path(__file__).parent / "engine_profile.py"


def doctor(*refused: str) -> dict[str, Any]:
    command = [sys.executable, str(FILTERED), ",".join(refused), sys.executable, "-m", "saccade", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["error"] is None, report["error"]
    return report | {"layers": {row["layer"]: row for row in report["layers"]}}


@pytest.mark.slow
def test_podman_s_profile_lets_no_name_be_set() -> None:
    report = doctor("sethostname")
    assert report["ok"]
    row = report["layers"]["ipc_namespace"]
    assert row["on"] is False or "can read the name of this machine" in row["detail"]


@pytest.mark.slow
def test_an_engine_that_lets_nothing_be_mounted() -> None:
    report = doctor("unshare", "mount", "fsopen", "open_tree", "move_mount", "mount_setattr", "pivot_root")
    row = report["layers"]["mount_namespace"]
    assert not row["on"]
    assert "Operation not permitted" in row["detail"]
    assert report["layers"]["seccomp"]["on"]
    assert report["ok"] is report["layers"]["landlock"]["on"]
