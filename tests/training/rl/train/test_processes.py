"""Long runs: spread over processes, killed, sampled by servers, with a judge that hangs, and VISTA's whole way."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from tests.models.wire_server import WireServer, chat, slow
from tests.training.rl.engines.served import running
from tests.training.rl.policies import Talkative, policy
from tests.training.rl.train.support import metrics, rl_settings, toy, untimed

from saccade.cli.main import main
from saccade.core.settings import save_settings
from saccade.errors import ModelLostError, ModelRefusedError, SettingsError, TrainingError
from saccade.media.store import MediaStore
from saccade.models.local_text import LocalSettings
from saccade.models.local_weights import load_checkpoint
from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.record.codec import read_lines
from saccade.record.content import Action, Answer, ToolCall
from saccade.record.execution import Status
from saccade.record.trajectory import FinishReason, Trajectory
from saccade.training import run as module
from saccade.training.rl.engines.vllm_process import free_port
from saccade.training.rl.run import train
from saccade.training.rl.settings import RlSettings
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


def written(checkpoint: Path, tasks: Path, path: Path, *, shard: bool, steps: int = 4) -> Path:
    """Settings under which a step takes several forward passes, of which one process has one more."""
    model = {"source": str(checkpoint), "shard": shard}
    keep = {"every": 2, "tensorboard": False}
    rounds = {"tasks": 3, "groups": 1, "rounds": 1}
    recipe = {"steps": steps, "rounds": rounds, "loss": {"kl_weight": 0.1}, "optimizer": {"learning_rate": 1e-3}}
    more = {"validation": {"every": 4, "source": str(tasks), "tasks": 3}, "max_tokens_per_batch": 230}
    save_settings(rl_settings(checkpoint, tasks, recipe=recipe, model=model, keep=keep, **more), path)
    return path


def start(settings: Path, out: Path, processes: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.training.rl.train.support", str(settings), str(out), str(processes)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, cwd=ROOT, text=True)


def finish(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate()
    assert process.returncode == 0, said[-3000:]


def workers(process: subprocess.Popen[str]) -> list[int]:
    """The processes of a run, in their order."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return sorted(int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes())


@pytest.fixture(scope="module")
def two(tiny: Path, tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Settings of a divided run, and its folder."""
    folder = tmp_path_factory.mktemp("two")
    settings = written(tiny, tasks, folder / "settings.toml", shard=True)
    finish(start(settings, folder / "run", 2))
    return settings, folder / "run"


@pytest.fixture(scope="module")
def one(tiny: Path, tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same run in one process, its first steps."""
    folder = tmp_path_factory.mktemp("one")
    finish(start(written(tiny, tasks, folder / "settings.toml", shard=False, steps=2), folder / "run", 1))
    return folder / "run"


def learns_the_same(spread: Path, one: Path, first: Path) -> None:
    """Two steps: later on rounding may draw another token."""
    ours, theirs = untimed(spread)[:3], untimed(one)[:3]
    assert [line["step"] for line in theirs] == [0, 1, 2]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(other, rel=1e-4, abs=2e-6)
    loaded = load_checkpoint(str(first), LocalSettings(device="cpu")).model
    before = {name: value.detach() for name, value in loaded.named_parameters()}
    after, learned = weights(one), weights(spread)
    assert learned.keys() == after.keys()
    changed = sum(float((value - before[name]).abs().sum()) for name, value in after.items())
    differs = sum(float((value - learned[name]).abs().sum()) for name, value in after.items())
    assert changed > 0
    assert differs < 0.01 * changed  # Adam makes something of the sign of a gradient that is 0 but for rounding


def weights(out: Path) -> dict[str, Any]:
    """What a checkpoint holds after two steps, in however many files."""
    files = sorted(out.glob("checkpoints/step-00000002/weights*.safetensors"))
    return {name: value for file in files for name, value in load_file(file).items()}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_divided_among_two_processes_a_run_learns_what_one_process_does(
    two: tuple[Path, Path], one: Path, tiny: Path
) -> None:
    learns_the_same(two[1], one, tiny)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_processes_with_whole_weights_learn_what_one_does(
    one: Path, tiny: Path, tasks: Path, tmp_path: Path
) -> None:
    settings = written(tiny, tasks, tmp_path / "settings.toml", shard=False, steps=2)
    finish(start(settings, tmp_path / "run", 2))
    learns_the_same(tmp_path / "run", one, tiny)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_process_killed_ends_all_and_the_run_goes_on_exactly(two: tuple[Path, Path], tmp_path: Path) -> None:
    settings, undivided = two
    out = tmp_path / "killed"
    process = start(settings, out, 2)
    deadline = time.monotonic() + 200
    while not (out / "metrics.jsonl").exists() or len(metrics(out)) < 4:  # step 3 is told, its checkpoint is at 2
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    both = workers(process)
    os.kill(both[1], signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert re.search(r"process 1 of 2 was killed \(SIGKILL\)|another process of this run ended", said)
    assert re.search(r"The same command [^\n]*--resume", said)
    assert not any(Path(f"/proc/{worker}").exists() for worker in both)
    assert not (out / "model").exists()
    finish(start(settings, out, 2))
    names = [path.relative_to(undivided) for path in sorted(undivided.glob("checkpoints/step-00000004/*"))]
    assert len(names) == 5
    for name in (*names, Path("model/model.safetensors")):
        assert (out / name).read_bytes() == (undivided / name).read_bytes()
    assert untimed(out) == untimed(undivided)


def command(settings: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "tests.training.rl.train.support", str(settings), str(out)]


STEPS = 6


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_killed_at_random_moments_and_resumed_equals_never_killed(tiny: Path, tasks: Path, tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    save_settings(rl_settings(tiny, tasks, keep={"every": 2, "tensorboard": False}, recipe={"steps": STEPS}), path)
    subprocess.run(command(path, tmp_path / "whole"), check=True, capture_output=True, cwd=ROOT)
    chance = random.Random(0)
    out = tmp_path / "killed"
    kills = 0
    while not (out / "model").exists() and kills < 30:
        process = subprocess.Popen(command(path, out), stderr=subprocess.DEVNULL, cwd=ROOT)
        done_steps(process, out / "metrics.jsonl", chance.randint(1, STEPS - 2))
        try:
            assert process.wait(chance.uniform(0, 0.3)) == 0
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
    assert kills
    for name in ("model/model.safetensors", f"checkpoints/step-{STEPS:08}/optimiser.safetensors"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def done_steps(process: subprocess.Popen[bytes], metrics: Path, count: int) -> None:
    """Return when `process` has written the lines of `count` steps, or has ended."""
    size = metrics.stat().st_size if metrics.exists() else 0
    while count and process.poll() is None:
        time.sleep(0.02)
        now = metrics.stat().st_size if metrics.exists() else 0
        count -= now > size
        size = now


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vllm", "sglang"])
@pytest.mark.parametrize("language", ["full", "lora"])
def test_a_server_samples_with_the_weights_of_every_step(
    kind: str, language: str, tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    with running(kind, policy(tiny), MediaStore(tmp_path / "served")) as server:
        # The gate ends the run where a step was sampled with the weights of another.
        more = {"engine": server.url, "max_logprob_diff": 1e-4, "model": {"source": str(tiny), "language": language}}
        model = train(rl_settings(tiny, tasks, recipe={"steps": 3}, **more), tmp_path / "run")
        assert server.loaded == [str(tmp_path / "run" / "served")] * 4
        lines = metrics(tmp_path / "run")
    assert [line["updates"] for line in lines] == [1, 1, 1]
    assert max(line["logprob_gap"] for line in lines) < 1e-4
    sent, kept = (load_file(folder / "model.safetensors") for folder in (tmp_path / "run" / "served", model))
    assert all(kept[name].equal(sent[name]) for name in kept)
    assert load_checkpoint(str(tmp_path / "run" / "served"), LocalSettings(device="cpu")).context_tokens == 2048


@pytest.mark.slow
def test_a_run_whose_servers_are_not_all_there_leaves_nothing_behind(tiny: Path, tasks: Path, tmp_path: Path) -> None:
    gone = "http://127.0.0.1:9"
    with running("vllm", policy(tiny), MediaStore(tmp_path / "served")) as server:
        for engine in (gone, f"{server.url},{gone}"):
            with pytest.raises(ModelLostError, match=f"{gone} cannot be reached"):
                train(rl_settings(tiny, tasks, engine=engine, retry={"tries": 1}), tmp_path / "run")
            assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_weights_that_do_not_arrive_end_the_run(
    tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    with running("vllm", policy(tiny), MediaStore(tmp_path / "served")) as server:
        monkeypatch.setattr(type(server), "load", lambda self, folder: None)
        settings = rl_settings(tiny, tasks, engine=server.url, max_logprob_diff=1e-3)
        with pytest.raises(TrainingError, match="between sampling and training"):
            train(settings, tmp_path / "run")
        server.raw = True
        with pytest.raises(ModelRefusedError, match="processed_logprobs"):
            train(settings, tmp_path / "other")


HANGS = 120
"""Seconds after which the run counts as held up by its judge."""


class Unsure(Talkative):
    """Any text is the same answer, in which the rule sees no right one."""

    def parse(self, text: str, finish: FinishReason) -> Action:
        return Answer(text="no idea")


def judged(server: WireServer, tiny: Path, tasks: Path, seconds: float) -> RlSettings:
    reward = {
        "preset": "pyvision-rl@1:paper",
        "answer_judge": f"compatible:judge@{server.url}/v1",
        "open_tags": ["*"],
        "judge_rules": {"seconds": seconds, "outages": 2, "concurrent": 1},
    }
    return rl_settings(tiny, tasks, recipe={"steps": 1, "reward": reward})


@pytest.mark.slow
def test_a_judge_that_hangs_ends_the_run_which_is_resumed_with_more_time(
    server: WireServer, tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("saccade.training.rl.run.load_dialect", lambda name: Unsure())
    server.will(slow(server))
    began = time.monotonic()
    with pytest.raises(TrainingError, match=r"the judge gave no verdict \(outage\).*--resume"):
        train(judged(server, tiny, tasks, 2), tmp_path / "run")
    assert time.monotonic() - began < HANGS
    assert len(server.bodies) == 2
    server.will(chat('{"score": 1}'))
    train(judged(server, tiny, tasks, 60), tmp_path / "run", resume=True)
    assert [line["step"] for line in metrics(tmp_path / "run")] == [1]


def as_options(*settings: str) -> list[str]:
    return [part for setting in settings for part in ("--set", setting)]


def scores(trajectory: Trajectory) -> dict[str, float | None]:
    return {score.name: score.value for score in trajectory.scores}


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_cloned_calls_of_tools_are_executed_and_rewarded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tiny(tmp_path / "random")
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("System Prompt:\nTools:\n{tools}\n\nUser Prompt:\n{query}\n")
    spoken = ["--tools", "contours", *as_options(f"prompt_file={prompt}")]
    styles = "expert.styles={crop=0, compute=0, consult=1, mistake=0, direct=0}"
    expert = ["--dialect", "vista", "--n", "1", *as_options(styles, "expert.verbosity=short"), *spoken]
    assert main(["synth", "touching-circles", "--out", str(tmp_path / "bc"), *expert]) == 0

    cloning = ["steps=30", "batch.trajectories=1", "optimizer.learning_rate=1e-2", "optimizer.weight_decay=0"]
    cloning += ["model.vision=full", "model.shard=false", "model.gradient_checkpointing=false", "threads=1"]
    cloning += ["keep.tensorboard=false", "validation.every=0", "validation.fraction=0"]
    data = ["--data", str(tmp_path / "bc"), "--model", str(tmp_path / "random"), "--out", str(tmp_path / "sft")]
    assert main(["sft", "vista", *data, *as_options(*cloning)]) == 0

    rl = ["steps=2", "tasks.most=1", "rounds.tasks=1", "rollout.group_size=4", "rollout.sampling.temperature=0.4"]
    rl += ["rollout.sampling.max_tokens=120", "validation.every=0", "keep.tensorboard=false", "rollouts.every=1"]
    run = ["--model", str(tmp_path / "sft" / "model"), "--tasks", "touching-circles", "--out", str(tmp_path / "rl")]
    assert main(["rl", "vista-r1", "--profile", "tiny", *run, *spoken, *as_options(*rl)]) == 0

    lines = [json.loads(line) for line in (tmp_path / "rl" / "metrics.jsonl").read_text().splitlines()]
    assert [line["rollouts"] for line in lines] == [4, 4]
    assert sum(line["tool_calls"] for line in lines) > 0
    played = list(read_lines(tmp_path / "rl" / "rollouts" / "trajectories.jsonl", Trajectory))
    assert {item.provenance.tools for item in played} == {("contours",)}
    right = [item for item in played if scores(item)["reward.format"] == 1 and scores(item)["reward.correct"] == 1]
    assert right, [[turn.text for turn in item.turns] for item in played]
    for item in right:
        call, execution = item.turns[0].action, item.turns[0].execution
        assert isinstance(call, ToolCall)
        assert execution is not None
        assert (call.name, execution.status, len(execution.pictures)) == ("contours", Status.OK, 1)
        assert '"count"' in execution.stdout + (execution.value or "")
