"""`local_ray` beside a program in the place of `ray`; `make test-ray` and `make test-verl` start the real one."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

import pytest

from saccade.errors import UnavailableError
from saccade.plugins.verl import local_ray as module
from saccade.plugins.verl.local_ray import local_ray

COMES_UP = """
import json, os, sys, time
json.dump([sys.argv[2:], dict(os.environ), os.getpid()], open(sys.argv[1], "w"))
folder = sys.argv[sys.argv.index("--temp-dir") + 1]
os.makedirs(folder + "/session_1")
os.symlink("session_1", folder + "/session_latest")
port = folder + "/session_1/dashboard_agent_listen_port_" + os.environ["RAY_OVERRIDE_NODE_ID_FOR_TESTING"]
while not os.path.exists(port):  # the agent itself would be too slow for Ray
    time.sleep(0.02)
print("Ray runtime started.", flush=True)
time.sleep(600)
"""
FAILS = "print('no room for Ray'); raise SystemExit(7)"
HANGS = "import time; print('still starting', flush=True); time.sleep(600)"


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(module, "_LOOK", 0.02)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a Ray that comes up writes how it was started."""
    path = tmp_path / "written"
    monkeypatch.setattr(module, "_PROGRAM", (sys.executable, "-c", COMES_UP, str(path)))
    return path


def started(written: Path) -> tuple[list[str], dict[str, str], int]:
    words, variables, process = json.loads(written.read_text())
    return words, variables, process


def given(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_a_cluster_with_a_port_for_each_agent_and_long_limits_ends_with_the_block(
    tmp_path: Path, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_worker_register_timeout_seconds", "5")
    with local_ray(tmp_path / "log", {"OURS": "1"}, "--num-gpus", "2") as found:
        words, variables, process = started(written)
        assert words[:3] == ["start", "--head", "--block"]
        assert words[-2:] == ["--num-gpus", "2"]
        ports = {int(given(words, name)) for name in module._PORTS}
        assert len(ports) == len(module._PORTS)
        assert 0 not in ports  # Ray would wait for the agent's own choice, and end
        assert found["RAY_ADDRESS"] == f"127.0.0.1:{given(words, '--port')}"
        assert variables["RAY_agent_register_timeout_ms"] == "900000"
        assert variables["RAY_worker_register_timeout_seconds"] == "5"
        assert variables["RAY_worker_niceness"] == "0"
        assert variables["OURS"] == "1"
        assert variables["RAY_AUTH_MODE"] == found["RAY_AUTH_MODE"] == "token"
        assert len(found["RAY_AUTH_TOKEN"]) == 64
        assert variables["RAY_AUTH_TOKEN"] == found["RAY_AUTH_TOKEN"]
        folder = Path(given(words, "--temp-dir"))
        port = folder / "session_1" / f"dashboard_agent_listen_port_{variables['RAY_OVERRIDE_NODE_ID_FOR_TESTING']}"
        assert port.read_text() == given(words, "--dashboard-agent-listen-port")
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_how_clients_are_known_is_left_to_the_user(
    tmp_path: Path, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with local_ray(tmp_path / "log", {}) as found:
        assert list(found) == ["RAY_ADDRESS"]
        assert started(written)[1]["RAY_AUTH_MODE"] == "disabled"


def test_a_cluster_that_is_named_is_used(tmp_path: Path, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    with local_ray(tmp_path / "log", {}) as found:
        assert found == {}
    assert not written.exists()


def test_the_log_of_an_earlier_start_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").write_text("Ray runtime started.\n")
    monkeypatch.setattr(module, "_PROGRAM", (sys.executable, "-c", FAILS))
    with (
        pytest.raises(UnavailableError, match=r"ended with code 7\. .*no room for Ray"),
        local_ray(tmp_path / "log", {}),
    ):
        pass


def test_a_slow_start_is_said_and_a_start_that_hangs_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_PROGRAM", (sys.executable, "-c", HANGS))
    monkeypatch.setattr(module, "SAY_SECONDS", 0.1)
    with (
        caplog.at_level(logging.WARNING, "saccade.plugins.verl.local_ray"),
        pytest.raises(UnavailableError, match=r"not up after 0\.5 s\. .* set RAY_ADDRESS"),
        local_ray(tmp_path / "log", {}, seconds=0.5),
    ):
        pass
    assert [record.getMessage()[:24] for record in caplog.records] == ["Ray has not started afte"]
