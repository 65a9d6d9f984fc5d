"""A run on several hosts with a shared file system: torchrun in two network namespaces, where they can be made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.training.rl.train.support import rl_settings, untimed

from saccade.core.settings import save_settings
from saccade.errors import SettingsError
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.training import run as module
from saccade.training.rl.engines.vllm_process import free_port
from saccade.training.rl.tasks import check_hosts
from saccade.training.run import check_shared

ROOT = Path(__file__).resolve().parents[4]
TORCHRUN = f"{sys.executable} -m torch.distributed.run --nnodes 2 --nproc-per-node 1 --max-restarts 0"
NAMESPACES = """
ip link set lo up
unshare -n sleep 900 & other=$!
trap "kill $other" EXIT
sleep 1
ip link add host1 type veth peer name host2 netns $other
ip addr add 10.77.0.1/24 dev host1
ip link set host1 up
nsenter -t $other -n sh -c "ip link set lo up; ip addr add 10.77.0.2/24 dev host2; ip link set host2 up"
"""


def namespaces() -> bool:
    """Whether this machine lets two network namespaces be joined."""
    if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        return False
    return subprocess.run(["unshare", "-Urn", "sh", "-ec", NAMESPACES], capture_output=True).returncode == 0


def two_hosts(program: str) -> list[str]:
    """A command that runs `program`, some arguments of Python, by torchrun as two hosts."""

    def run(rank: int, address: str, port: int) -> str:
        return f"{TORCHRUN} --node-rank {rank} --master-addr {address} --master-port {port} {program}"

    if not namespaces():
        first, second = (run(rank, "127.0.0.1", port) for port in (free_port(),) for rank in (0, 1))
        return ["sh", "-ec", f"{first} & first=$!\ntrap 'kill $first 2>/dev/null || :' EXIT\n{second}\nwait $first\n"]
    first, second = (run(rank, "10.77.0.1", 29511) for rank in (0, 1))
    script = f"GLOO_SOCKET_IFNAME=host1 {first} & first=$!\ntrap 'kill $other $first 2>/dev/null || :' EXIT\n"
    script += f"GLOO_SOCKET_IFNAME=host2 nsenter -t $other -n {second}\nwait $first\n"
    return ["unshare", "-Urn", "sh", "-ec", NAMESPACES + script]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_internvl_learns_on_two_hosts_what_it_learns_on_one(tmp_path: Path, tasks: Path) -> None:
    save_tiny(tmp_path / "internvl", family="internvl")
    path = tmp_path / "settings.toml"
    recipe: dict[str, Any] = {"steps": 2, "optimizer": {"learning_rate": 1e-3}}
    model = {"source": str(tmp_path / "internvl"), "shard": True}
    validation = {"every": 2, "source": str(tasks), "tasks": 3}
    save_settings(rl_settings(tmp_path, tasks, recipe=recipe, model=model, validation=validation), path)

    program = "tests.training.rl.train.support"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = two_hosts(f"-m {program} {path} {tmp_path / 'two'}")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]

    alone = [sys.executable, "-m", program, str(path), str(tmp_path / "one"), "2"]
    assert subprocess.run(alone, cwd=ROOT, capture_output=True).returncode == 0
    ours, theirs = untimed(tmp_path / "two"), untimed(tmp_path / "one")
    assert [line["step"] for line in ours] == [0, 1, 2, 2]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(other, rel=1e-4, abs=2e-6)
    assert (tmp_path / "two" / "model" / "model.safetensors").is_file()
    assert not (tmp_path / "two" / "shared").exists()


@pytest.mark.parametrize("more", [{"engine": "vllm"}, {"judge": {"gpus": 0}}, {"judge": {"gpus": 2}}])
def test_servers_of_one_host_are_refused(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="starts servers that only this host can reach"):
        check_hosts(rl_settings(tmp_path, tmp_path, **more))
    check_hosts(rl_settings(tmp_path, tmp_path, engine="http://host-a:8000"))


@dataclass
class Others:
    """The first of two processes on two hosts, of which the other sees a folder or none."""

    sees: bool
    several_hosts: bool = True
    is_main: bool = True

    def all_gather(self, item: object) -> list[object]:
        return [item, self.sees if isinstance(item, bool) else item]

    def barrier(self) -> None: ...


def test_a_folder_that_is_not_shared_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SEEN_SECONDS", 0.0)
    check_shared(tmp_path / "run", Others(sees=True))  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="the processes 1 do not see"):
        check_shared(tmp_path / "run", Others(sees=False))  # type: ignore[arg-type]
    assert list((tmp_path / "run").iterdir()) == []
    check_shared(tmp_path / "none", Others(sees=False, several_hosts=False))  # type: ignore[arg-type]
    assert not (tmp_path / "none").exists()
