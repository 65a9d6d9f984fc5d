from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from saccade.errors import ModelLostError, SettingsError, UnavailableError
from saccade.training.rl.engines.settings import EngineSettings, check_engine
from saccade.training.rl.engines.vllm_process import (
    ServerProcess,
    free_port,
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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
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


async def test_one_that_ends_early_says_its_last_words(tmp_path: Path) -> None:
    server = ServerProcess(
        [sys.executable, "-c", "print('no memory'); raise SystemExit(3)"], {}, "http://127.0.0.1:9", tmp_path / "log"
    )
    with pytest.raises(ModelLostError, match=r"ended\. .*no memory"):
        await server.wait_until_ready(60)
    server.stop()


async def test_one_that_does_not_answer_in_time(tmp_path: Path) -> None:
    server = ServerProcess(
        [sys.executable, "-c", "import time; time.sleep(600)"], {}, "http://127.0.0.1:9", tmp_path / "l"
    )
    with pytest.raises(ModelLostError, match=r"not ready after 0\.2 s.*engine\.ready_seconds"):
        await server.wait_until_ready(0.2)
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
    ("gpus", "there", "training", "devices"),
    [(0, 0, 1, [None]), (2, 8, 6, [6, 7]), (1, 2, 1, [1])],
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
