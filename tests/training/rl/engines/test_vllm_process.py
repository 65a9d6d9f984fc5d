"""Servers that a run starts: vLLM's processes and Ray's, the GPUs that they share with training, weights in memory."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.training.rl.engines.served import SamplingServer
from tests.training.rl.policies import TinyPolicy

from saccade.core.retry import RetryPolicy
from saccade.errors import ModelLostError, ModelRefusedError, SettingsError, UnavailableError
from saccade.media.store import MediaStore
from saccade.plugins.verl import local_ray as module
from saccade.plugins.verl.local_ray import local_ray
from saccade.tokens.batch import PromptDelta
from saccade.tokens.turn import TurnRequest
from saccade.training.rl.engines import vllm_process as memory
from saccade.training.rl.engines.server import ServerEngine
from saccade.training.rl.engines.server_http import Connection
from saccade.training.rl.engines.settings import EngineSettings, check_engine
from saccade.training.rl.engines.vllm_process import (
    ServerProcess,
    free_port,
    memory_options,
    serve_command,
    serve_environment,
    serving_devices,
    vllm_servers,
)

SERVER = """
import os, subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[2], "w") as ids:
    ids.write(f"{os.getpid()} {worker.pid}")

class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

HTTPServer(("127.0.0.1", int(sys.argv[1])), Answers).serve_forever()
"""

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


def command(tmp_path: Path, port: int, before: str = "") -> list[str]:
    program = tmp_path / "server.py"
    program.write_text(before + SERVER)
    return [sys.executable, str(program), str(port), str(tmp_path / "ids")]


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_for_end(ids: list[int]) -> None:
    end = time.monotonic() + 60
    while any(alive(process) for process in ids):
        assert time.monotonic() < end
        time.sleep(0.05)


def ids_of(tmp_path: Path) -> list[int]:
    return [int(process) for process in (tmp_path / "ids").read_text().split()]


@pytest.mark.parametrize("before", ["", pytest.param(STUBBORN, marks=pytest.mark.slow)])
async def test_a_server_and_its_workers_end_with_stop(tmp_path: Path, before: str) -> None:
    port = free_port()
    server = ServerProcess(command(tmp_path, port, before), {}, f"http://127.0.0.1:{port}", tmp_path / "log")
    await server.wait_until_ready(60)
    ids = ids_of(tmp_path)
    assert all(map(alive, ids))
    if before:
        os.kill(ids[0], signal.SIGTERM)  # it does not listen; its guard waits and then kills
        assert alive(ids[0])
    server.stop()
    wait_for_end(ids)
    server.stop()


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_it_ends_when_its_starter_is_gone(tmp_path: Path, number: signal.Signals) -> None:
    port = free_port()
    program = textwrap.dedent(
        f"""
        import asyncio, signal
        from pathlib import Path
        from saccade.training.rl.engines.vllm_process import ServerProcess
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the suite runs in the background
        address, log = "http://127.0.0.1:{port}", Path("{tmp_path}/log")
        server = ServerProcess({command(tmp_path, port)!r}, {{}}, address, log)
        asyncio.run(server.wait_until_ready(60))
        print("ready", flush=True)
        asyncio.run(asyncio.sleep(600))
        """
    )
    starter = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert starter.stdout is not None
    assert starter.stdout.readline() == b"ready\n"
    ids = ids_of(tmp_path)
    assert all(map(alive, ids))
    starter.send_signal(number)
    starter.wait(60)
    starter.stdout.close()
    wait_for_end(ids)


@pytest.mark.parametrize(
    ("program", "seconds", "words"),
    [
        ("print('no memory'); raise SystemExit(3)", 60, r"ended\. .*no memory"),
        ("import time; time.sleep(600)", 0.2, r"not ready after 0\.2 s.*engine\.ready_seconds"),
    ],
)
async def test_one_that_ends_early_or_is_late_says_so(tmp_path: Path, program: str, seconds: float, words: str) -> None:
    server = ServerProcess([sys.executable, "-c", program], {}, "http://127.0.0.1:9", tmp_path / "log")
    with pytest.raises(ModelLostError, match=words):
        await server.wait_until_ready(seconds)
    server.stop()


async def test_servers_of_a_run_end_with_the_block_and_when_one_does_not_come_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    program = tmp_path / "vllm"
    program.write_text(
        f'#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = --port ] && port=$2; shift; done\n'
        f'exec {sys.executable} {tmp_path}/server.py "$port" {tmp_path}/ids\n'
    )
    program.chmod(0o755)
    command(tmp_path, 0)
    settings = EngineSettings(source="vllm", program=str(program))
    ids = []

    async def run() -> None:
        async with vllm_servers(settings, tmp_path, 2048, tmp_path / "logs", 1) as servers:
            assert [server.log.name for server in servers] == ["vllm-0.log"]
            ids.extend(ids_of(tmp_path))
            raise RuntimeError("of the run")

    with pytest.raises(RuntimeError, match="of the run"):
        await run()
    assert len(ids) == 2
    wait_for_end(ids)
    (tmp_path / "server.py").write_text("raise SystemExit('broken')")
    with pytest.raises(ModelLostError, match="broken"):
        async with vllm_servers(settings, tmp_path, 2048, tmp_path / "logs", 1):
            pass
    with pytest.raises(UnavailableError, match=r"engine\.program"):
        async with vllm_servers(EngineSettings(source="vllm", program="no-such"), tmp_path, None, tmp_path, 1):
            pass


@pytest.mark.parametrize(
    ("gpus", "there", "training", "devices"), [(0, 0, 1, [None]), (2, 8, 6, [6, 7]), (1, 2, 1, [1])]
)
def test_the_last_gpus_serve(gpus: int, there: int, training: int, devices: list[int | None]) -> None:
    assert serving_devices(EngineSettings(source="vllm", gpus=gpus), there, training) == devices


@pytest.mark.parametrize(
    ("gpus", "there", "training", "words"),
    [(1, 0, 1, "no GPU"), (0, 8, 1, "how many"), (4, 8, 5, "need 9 GPUs; this machine has 8")],
)
def test_a_division_that_cannot_be_is_refused(gpus: int, there: int, training: int, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        serving_devices(EngineSettings(source="vllm", gpus=gpus), there, training)


@pytest.mark.parametrize(("seen", "device", "name"), [(None, 1, "1"), ("4,5", 1, "5"), ("GPU-a", 0, "GPU-a")])
def test_a_server_sees_its_gpu_of_those_that_the_run_sees(
    seen: str | None, device: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if seen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    assert serve_environment(device) == {
        "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "CUDA_VISIBLE_DEVICES": name,
    }  # fmt: skip


def test_a_server_on_the_cpu_has_little_unless_the_user_says_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = serve_environment(None)
    assert (found["VLLM_CPU_KVCACHE_SPACE"], found["OMP_NUM_THREADS"]) == ("1", "3")
    assert "CUDA_VISIBLE_DEVICES" not in found


def test_the_command_of_a_server(tmp_path: Path) -> None:
    start = ["vllm", "serve", str(tmp_path), "--host", "127.0.0.1", "--port", "81"]
    mode = ["--enable-scale-out", "--logprobs-mode", "processed_logprobs"]
    assert serve_command("vllm", tmp_path, 81, None, cpu=False) == start + mode
    assert serve_command("vllm", tmp_path, 81, 99, cpu=True) == [
        *start, *mode, "--max-model-len", "99", "--enforce-eager", "--dtype", "float32", "--skip-mm-profiling",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (EngineSettings(source="http://a:1,http://a:1/v1"), "twice"),
        (EngineSettings(source="http://a:1,b"), "must look like"),
        (EngineSettings(source="VLM"), r"no address .*http://host:port.* Did you mean 'vllm'\?"),
        (EngineSettings(source="http://a:1", gpus=2), r"engine\.gpus is for servers that the run starts"),
        (EngineSettings(options=("--seed", "1")), r"engine\.options"),
    ],
)
def test_engines_that_cannot_be(settings: EngineSettings, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        check_engine(settings)


def test_a_name_is_short_for_the_source() -> None:
    assert EngineSettings.model_validate("vllm") == EngineSettings(source="vllm")
    assert EngineSettings.model_validate("http://a:1, http://b:2").addresses == ("http://a:1", "http://b:2")
    check_engine(EngineSettings(source="vllm", gpus=2, options=("--max-num-seqs", "64")))


def test_a_free_port_is_free() -> None:
    with socket.create_server(("127.0.0.1", free_port())):
        pass


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


def how_ray_started(written: Path) -> tuple[list[str], dict[str, str], int]:
    words, variables, process = json.loads(written.read_text())
    return words, variables, process


def given(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_a_cluster_with_a_port_for_each_agent_and_long_limits_ends_with_the_block(
    tmp_path: Path, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_worker_register_timeout_seconds", "5")
    with local_ray(tmp_path / "log", {"OURS": "1"}, "--num-gpus", "2") as found:
        words, variables, process = how_ray_started(written)
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
        assert how_ray_started(written)[1]["RAY_AUTH_MODE"] == "disabled"


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


SHARED = EngineSettings(source="vllm", shared=True, memory=40)


def engine_of(servers: list[SamplingServer], made: TinyPolicy, folder: Path) -> ServerEngine:
    ways = [Connection(server.url, retry=RetryPolicy(tries=1)) for server in servers]
    return ServerEngine(ways, made, MediaStore(folder / "media"), folder / "served", shared=True)


async def test_servers_sleep_and_have_room_for_weights_before_they_read_them(
    servers: list[SamplingServer], made: TinyPolicy, folder: Path, tmp_path: Path
) -> None:
    engine = engine_of(servers, made, tmp_path)
    asked = TurnRequest(PromptDelta(made.encoder.text("Hi")), max_tokens=3)
    for _ in range(2):
        await engine.sleep()
        assert all(server.away for server in servers)
        await engine.update_weights(lambda where: shutil.copytree(folder, where, dirs_exist_ok=True))
        for slot in engine.slots(range(2)):
            await slot.generate(asked)
    for server in servers:
        assert server.orders == ["sleep 2", "wake weights", "load", "wake kv_cache"] * 2
    await engine.close()


async def test_one_that_does_not_sleep_is_refused(
    servers: list[SamplingServer], made: TinyPolicy, tmp_path: Path
) -> None:
    servers[1].sleeps = False
    engine = engine_of(servers, made, tmp_path)
    with pytest.raises(ModelRefusedError, match=r"told to sleep and did not.*--enable-sleep-mode"):
        await engine.sleep()
    await engine.close()


async def test_when_none_is_there_to_sleep_the_run_is_told(made: TinyPolicy, tmp_path: Path) -> None:
    engine = engine_of([SimpleNamespace(url="http://127.0.0.1:9")], made, tmp_path)  # type: ignore[list-item]
    with pytest.raises(ModelLostError, match="cannot be reached"):
        await engine.sleep()
    await engine.close()


def test_a_server_shares_the_gpu_of_each_that_trains() -> None:
    assert serving_devices(SHARED, 8, 8) == list(range(8))
    assert not SHARED.exact
    with pytest.raises(SettingsError, match="on each of 4 GPUs; this machine has 2"):
        serving_devices(SHARED, 2, 4)
    with pytest.raises(SettingsError, match="no GPU, and vLLM gives memory back on a GPU alone"):
        serving_devices(SHARED, 0, 1)
    with pytest.raises(SettingsError, match=r"engine\.memory is of a GPU"):
        serving_devices(EngineSettings(source="vllm", memory=4), 0, 1)


def test_what_a_server_takes_is_told_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: SimpleNamespace(total_memory=80 * 2**30))
    assert memory_options(SHARED, 3) == ["--enable-sleep-mode", "--gpu-memory-utilization", "0.5000"]
    assert memory_options(EngineSettings(source="vllm", gpus=1), 3) == []
    assert memory_options(SHARED, None) == []
    with pytest.raises(SettingsError, match=r"90 GiB, and GPU 0 has 80\.0"):
        memory_options(EngineSettings(source="vllm", gpus=1, memory=90), 0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (EngineSettings(source="vllm", shared=True), r"needs engine\.memory"),
        (EngineSettings(source="vllm", shared=True, memory=40, gpus=2), "Leave one of them out"),
        (EngineSettings(source="http://a:1", shared=True, memory=40), r"engine\.shared is for servers that the run"),
        (EngineSettings(weights="memory"), r"engine\.weights is for servers"),
    ],
)
def test_what_does_not_go_together(settings: EngineSettings, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        check_engine(settings)


def test_servers_that_are_there_already_may_read_weights_from_memory() -> None:
    check_engine(EngineSettings(source="http://a:1", weights="memory"))


def test_weights_in_memory_are_gone_with_the_run() -> None:
    with memory.memory_folder(1000) as folder:
        assert folder.parent == memory.SHARED
        (folder / "model.safetensors").write_bytes(b"x")
    assert not folder.exists()


def test_they_are_gone_when_the_run_is_killed() -> None:
    program = (
        "import time\nfrom saccade.training.rl.engines.vllm_process import memory_folder\n"
        "with memory_folder(1000) as folder:\n"
        "    (folder / 'weights').write_bytes(b'x')\n    print(folder, flush=True)\n    time.sleep(600)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    folder = Path(run.stdout.readline().strip())
    removers: list[int] = []
    while not removers:  # it has begun, and may still be about to become that program
        removers = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if _names(path, folder)]
    assert (folder / "weights").exists()
    assert len(removers) == 1
    run.send_signal(signal.SIGKILL)
    run.wait(60)
    run.stdout.close()
    wait_for_end(removers)
    assert not folder.exists()
    assert not any(map(alive, removers))


def _names(path: Path, folder: Path) -> bool:
    try:
        return os.fsencode(folder) in path.read_bytes().split(b"\0")
    except OSError:
        return False


def test_too_little_memory_is_told_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"need 9\.31e\+05 GiB in .*--shm-size"), memory.memory_folder(1e15):
        pass
    monkeypatch.setattr(memory, "SHARED", Path("/no/such"))
    with pytest.raises(SettingsError, match="needs /no/such"):
        memory.check_memory(1)
