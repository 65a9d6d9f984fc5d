"""The same wire on a real Ray Serve: batches, a killed replica that is replaced while episodes run, metrics.

Needs Ray in an environment of its own: `make ray` installs it and `make test-ray` runs this.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.episode.support import stored_task
from tests.tools.tricky import HERE

from saccade.dialects.base import load_dialect
from saccade.episode.drive import run_episode
from saccade.episode.flow import Plan
from saccade.episode.workbench import equipped
from saccade.media.store import MediaStore
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Answer, ToolCall
from saccade.record.trajectory import Trajectory
from saccade.tools.context import ToolContext
from saccade.tools.setup import ToolCallSettings
from saccade.tools.toolbox import Toolbox

RAY_SACCADE = os.environ.get("RAY_SACCADE", "")
"""The command `saccade` of an environment with Ray."""
TOKEN = "0123456789abcdef0123456789abcdef"
TOOLS = f"""
[groups.look]
tools = ["crop", "color_stats"]
[groups.look.ray]
ray_actor_options = {{ num_cpus = 0.1 }}
[groups.tricky]
tools = ["{HERE}"]
seconds = 30
batch_wait_seconds = 0.1
[groups.tricky.ray]
num_replicas = 2
health_check_period_s = 1
ray_actor_options = {{ num_cpus = 0.1 }}
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),  # Ray needs minutes to start on a busy machine
    pytest.mark.skipif(not RAY_SACCADE, reason="Ray is not installed here: `make ray`, then `make test-ray`"),
]


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address of the server, and of Ray's metrics."""
    folder = tmp_path_factory.mktemp("ray")
    (folder / "tools.toml").write_text(TOOLS)
    command = [RAY_SACCADE, "tools", "serve", str(folder / "tools.toml"), "--on", "ray", "--port", "0"]
    environment = {**os.environ, "SACCADE_TOOLS_TOKEN": TOKEN, "PYTHONPATH": ""}
    with (
        (folder / "errors").open("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as server,
    ):
        try:
            assert server.stdout is not None
            line = next((line for line in server.stdout if line.startswith("saccade tools:")), "")
            assert line, (folder / "errors").read_text()
            url, metrics = re.findall(r"http://[^\s)]+", line)
            yield url, metrics
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.wait(90)
            finally:
                server.kill()


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACCADE_TOOLS_TOKEN", TOKEN)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def pids_of(tools: Toolbox, calls: int = 24) -> tuple[set[int], int]:
    """Processes that answered many calls at once, and the largest batch."""
    results = await asyncio.gather(*(tools.call_async("tricky", {}, ToolContext({})) for _ in range(calls)))
    assert all(result.ok for result in results), results
    values = [result.value for result in results if result.value is not None]
    return {int(str(value["pid"])) for value in values}, max(int(str(value["together"])) for value in values)


async def test_a_killed_replica_is_replaced_while_episodes_run_and_none_is_lost(
    ray: tuple[str, str], tmp_path: Path
) -> None:
    url, metrics = ray
    store = MediaStore(tmp_path)
    dialect, tools = await asyncio.to_thread(equipped, load_dialect("vista"), [url], ToolCallSettings())
    assert tools is not None
    before, largest = await pids_of(tools)
    assert largest > 1
    replicas = {parent(pid) for pid in before}
    assert len(replicas) == 2
    slow = dialect.write(ToolCall(name="tricky", arguments={"do": "sleep", "seconds": 0.5}), "I wait.")
    crop = dialect.write(ToolCall(name="crop", arguments={"box": [0, 0, 8, 8]}), "I look.")
    done = dialect.write(Answer(text="done"), "Seen.")
    limits = dialect.limits.model_copy(update={"turns": 9})
    task = stored_task(store)

    async def episode(number: int) -> Trajectory:
        plan = Plan(task, dialect, given_limits=limits, rollout=number)
        return await run_episode(plan, ScriptedModel([slow, crop, slow, crop, slow, done]), None, store, tools=tools)

    episodes = [asyncio.ensure_future(episode(number)) for number in range(24)]
    await asyncio.sleep(1.0)
    os.kill(min(replicas), signal.SIGKILL)
    played = await asyncio.gather(*episodes)
    assert [item.answer for item in played] == ["done"] * 24
    assert not any(item.lost for item in played)
    assert all(turn.execution.status == "ok" for item in played for turn in item.turns if turn.execution)

    after: set[int] = set()
    for _ in range(60):
        after = {parent(pid) for pid in (await pids_of(tools))[0]}
        if len(after) == 2:
            break
        await asyncio.sleep(0.5)
    assert len(after) == 2
    assert len(after & replicas) == 1  # one stayed, one is new

    async with httpx.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}) as client:
        own = (await client.get(f"{url}/v1/metrics")).text
        assert re.search(r'saccade_tool_calls_total\{tool="tricky",end="ok"\} \d\d+', own)
        assert (await client.get(f"{url}/v1/health")).json() == {"status": "alive"}
    # A child process: tests themselves reach the loopback interface alone, and Ray's metrics are on the machine's own.
    program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
    scraped = subprocess.run([sys.executable, "-c", program, metrics], capture_output=True, text=True, check=True)
    assert "ray_serve_" in scraped.stdout
    assert 'deployment="tricky"' in scraped.stdout


async def test_time_limits_crashes_and_tokens_are_as_without_ray(
    ray: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = ray
    hasty, patient = [
        await asyncio.to_thread(Toolbox.of, url, calls=ToolCallSettings(seconds=seconds)) for seconds in (0.5, 30)
    ]
    hung = await hasty.call_async("tricky", {"seconds": 60}, ToolContext({}))
    crashed = await patient.call_async("tricky", {"do": "crash"}, ToolContext({}))
    assert (hung.status.value, crashed.status.value) == ("timeout", "killed")
    async with httpx.AsyncClient() as nobody:
        assert (await nobody.get(f"{url}/v1/tools")).status_code == 401
