"""OpenEnv's own validation of the package in `examples/openenv`, and of a running server.

`openenv validate` builds an image for its runtime checks. Here its graders look at the same server, started as a
process: nothing of theirs is replaced but where the server runs.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

pytest.importorskip("openenv")
from openenv.validation import Level, run_validation
from openenv.validation.types import CheckStatus, ProviderCapability, Verdict

pytestmark = [
    pytest.mark.faces,
    pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux"),
    # OpenEnv's collector of evidence calls what `websockets` gives up, and takes any exception for a failed reset.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
PACKAGE = Path(__file__).resolve().parents[4] / "examples" / "openenv"
OPENENV = Path(sys.executable).parent / "openenv"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy, since validation writes beside what it reads."""
    return shutil.copytree(PACKAGE, tmp_path / "package", ignore=shutil.ignore_patterns("__pycache__"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Running:
    """The server of a package as a process."""

    def __init__(self, root: Path) -> None:
        port = free_port()
        self.base_url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "server.app", "--port", str(port)]
        self._process = subprocess.Popen(command, cwd=root, stderr=subprocess.DEVNULL, env=dict(os.environ))
        end = time.monotonic() + 300
        while time.monotonic() < end and self._process.poll() is None:
            try:
                if httpx.get(f"{self.base_url}/health").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        self.stop()
        pytest.fail("the server did not start")

    def inspect(self) -> dict[str, object]:
        return {}

    def logs(self, max_bytes: int = 65536) -> str:
        return ""

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(120)


class ProcessProvider:
    """Starts the package's server as a process of this machine."""

    name = "process"
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD})
    supported_network_modes = frozenset({"public"})

    def build(self, root: Path, execution: object) -> str:
        self._root = root
        return "sha256:" + "0" * 64

    def start(self, spec: object) -> Running:
        return Running(self._root)


def test_the_package_passes_the_static_level(package: Path) -> None:
    command = [str(OPENENV), "validate", str(package), "--level", "static", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"] == "pass"
    assert {item["check_id"]: item["status"] for item in report["results"]} == {"static.manifest": "pass"}


def test_every_runtime_check_that_openenv_has_passes(package: Path) -> None:
    report = run_validation(package, max_level=Level.SEMANTIC, provider=ProcessProvider())
    found = {item.check_id: item for item in report.results}
    passed = {name for name, item in found.items() if item.status is CheckStatus.PASS}
    wanted = {"startup", "reward_well_formed", "observation_schema", "state_contract"}
    assert {f"runtime.{name}" for name in wanted} | {"static.manifest"} <= passed, found["runtime.startup"]
    others = {name: item for name, item in found.items() if name not in passed}
    # What is left has no grader in this release, or needs a container's network to be measured.
    assert all(item.status is CheckStatus.SKIP for item in others.values()), others
    assert report.verdict is not Verdict.FAIL


def test_a_running_server_passes_every_criterion(package: Path) -> None:
    running = Running(package)
    try:
        command = [str(OPENENV), "validate", "--url", running.base_url, "--json", "--timeout", "300"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        running.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["passed"]
    assert all(item["passed"] for item in report["criteria"])
    assert len(report["criteria"]) >= 6
