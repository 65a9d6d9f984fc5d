"""Servers on the GPUs that train: they sleep while the run updates. And weights that never touch the disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.training.rl.engines.served import SamplingServer, running
from tests.training.rl.engines.test_vllm_process import alive, wait_for_end
from tests.training.rl.policies import TinyPolicy, policy

from saccade.core.retry import RetryPolicy
from saccade.errors import ModelLostError, ModelRefusedError, SettingsError
from saccade.media.store import MediaStore
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.tokens.build import PromptDelta
from saccade.tokens.turn import TurnRequest
from saccade.training.rl.engines import memory_folder as memory
from saccade.training.rl.engines.server import ServerEngine
from saccade.training.rl.engines.server_http import Connection
from saccade.training.rl.engines.settings import EngineSettings, check_engine
from saccade.training.rl.engines.vllm_process import memory_options, serving_devices

SHARED = EngineSettings(source="vllm", shared=True, memory=40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "qwen"
    save_tiny(folder, "qwen2_5_vl")
    return folder


@pytest.fixture(scope="module")
def made(folder: Path) -> TinyPolicy:
    return policy(folder)


@pytest.fixture
def servers(made: TinyPolicy, tmp_path: Path) -> Iterator[list[SamplingServer]]:
    with running("vllm", made, MediaStore(tmp_path / "a")) as one:
        with running("vllm", made, MediaStore(tmp_path / "b")) as other:
            yield [one, other]


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
        "import time\nfrom saccade.training.rl.engines.memory_folder import memory_folder\n"
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
