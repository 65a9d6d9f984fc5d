"""The plugin in Prime Intellect's own evaluation, against a server that speaks OpenAI's protocol.

Needs verifiers in an environment of its own: `make faces` installs them and `make test-faces` runs this.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verifiers.v1")
from tests.models.wire_server import WireServer, running, status
from tests.plugins.serve.face_pages import run_page
from tests.plugins.serve.summed import says
from verifiers.v1.utils.loaders import load_harness, load_taskset

from saccade.dialects.base import load_dialect
from saccade.errors import RegistryError, SettingsError
from saccade.media.store import MediaStore
from saccade.plugins.integrations.verifiers.loop import TRAJECTORY, LookHarnessConfig, LookTasksetConfig, made
from saccade.record.content import Answer, Code
from saccade.record.trajectory import Trajectory
from saccade.rewards.reward import Graded

pytestmark = [pytest.mark.faces, pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux")]
DIALECT = load_dialect("pyvision")
LOOK = DIALECT.write(Code(code="print(image_clue_0.size)\nimage_clue_0.crop((0, 0, 40, 40)).show()"), "I look.")
KEY = "a-key-that-nobody-may-see"


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with running() as server:
        yield server


def evaluated(url: str, out: Path, *options: str) -> tuple[list[dict[str, Any]], str]:
    """The traces that `vf-eval` writes, and everything that it printed."""
    command = [
        *(str(Path(sys.executable).parent / "vf-eval"), "saccade-verifiers", "--env.taskset.sources"),
        *('["nested-squares"]', "--env.taskset.n", "1", "--env.agent.runtime.type", "subprocess", "--model", "m"),
        *("--client.base-url", f"{url}/v1", "--client.api-key-var", "MY_MODEL", "--no-push", "--no-rich"),
        *("--output-dir", str(out), *options),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "MY_MODEL": KEY}, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    (file,) = out.glob("*/traces.jsonl")
    traces = [json.loads(line) for line in file.read_text().splitlines()]
    written = "".join(path.read_text() for path in out.rglob("*") if path.is_file())
    assert KEY not in said + written
    return [trace for episode in traces for trace in episode.get("traces", [episode])], said


def test_an_evaluation_plays_our_loop_and_pays_our_grade(wire: WireServer, tmp_path: Path) -> None:
    (task,) = load_taskset(LookTasksetConfig(id="saccade-verifiers", sources=["nested-squares"], n=1))
    gold = made(task.data, MediaStore(tmp_path / "store")).answer or ""
    wire.will(*says(LOOK, DIALECT.write(Answer(text=gold), "So.")))
    (trace,), _ = evaluated(wire.url, tmp_path / "out")
    assert trace["ok"], trace["errors"]
    trajectory = Trajectory.model_validate(trace["info"][TRAJECTORY])
    assert [turn.action.kind for turn in trajectory.turns] == ["code", "answer"]
    first = trajectory.turns[0].execution
    assert first is not None
    assert (first.status.value, len(first.pictures)) == ("ok", 1)
    assert trace["rewards"] == {"correct": {"score": 1.0, "weight": 1.0}}
    assert {score.name: score.value for score in Graded()(trajectory)} == {"correct": 1.0}
    assert trace["metrics"] == {"turns": 2.0, "failed_calls": 0.0, "answered": 1.0}
    # The second request shows what the code showed, and verifiers has recorded both calls.
    pictures = [part for message in wire.bodies[1]["messages"] for part in _parts(message) if part["type"] != "text"]
    assert len(pictures) == 2
    assert len(trace["calls"]) == 2


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def test_a_wrong_answer_a_failed_call_and_a_reward_preset(wire: WireServer, tmp_path: Path) -> None:
    wire.will(*says(DIALECT.write(Code(code="1 / 0"), "I err."), DIALECT.write(Answer(text="none at all"), "So.")))
    (trace,), _ = evaluated(wire.url, tmp_path, "--env.taskset.task.rubric", "pyvision-rl")
    assert trace["ok"], trace["errors"]
    assert trace["rewards"]["reward.accuracy"]["score"] == 0.0
    assert trace["metrics"]["failed_calls"] == 1.0


def test_an_outage_of_the_model_is_an_error_of_verifiers(wire: WireServer, tmp_path: Path) -> None:
    wire.will(status(500, "no"))
    harness = ("--env.agent.harness.id", "saccade-verifiers", "--env.agent.harness.settings.retry.tries")
    (trace,), _ = evaluated(wire.url, tmp_path, *harness, "1")
    assert not trace["ok"]
    assert trace["rewards"] == {}
    assert "ProviderError" in {error["type"] for error in trace["errors"]}


def test_settings_that_cannot_work_are_refused_before_a_rollout() -> None:
    for config, error in (
        ({"dialect": "pyvisoin"}, RegistryError),
        ({"settings": {"limit": {"turns": 3}}}, SettingsError),
        ({"settings": {"tools": ["no-such-tool"]}}, (SettingsError, RegistryError)),
    ):
        with pytest.raises(error):
            load_harness(LookHarnessConfig(id="saccade-verifiers", **config))
    with pytest.raises(SettingsError, match="nested-squares"):
        list(load_taskset(LookTasksetConfig(id="saccade-verifiers", sources=["nested-square"])))
    with pytest.raises(SettingsError, match="judge"):
        list(
            load_taskset(
                LookTasksetConfig.model_validate(
                    {"id": "saccade-verifiers", "sources": ["nested-squares"], "n": 1, "task": {"rubric": "codev"}}
                )
            )
        )


def test_tasks_hold_neither_answer_nor_pictures(tmp_path: Path) -> None:
    taskset = load_taskset(LookTasksetConfig(id="saccade-verifiers", sources=["nested-squares"], n=2))
    one, two = taskset
    assert one.key != two.key
    task = made(one.data, MediaStore(tmp_path))
    data = one.data.model_dump_json()
    assert task.question in data
    assert "answer" not in data
    assert task.media[0].part.sha256 not in data


def test_the_page_runs(wire: WireServer, tmp_path: Path) -> None:
    wire.will(*says(DIALECT.write(Answer(text="3"), "So.")))
    run_page("verifiers", tmp_path, OPENAI_BASE_URL=f"{wire.url}/v1", OPENAI_API_KEY=KEY)
    text = (tmp_path / "traces.json").read_text()
    assert text.count('"stop": "answered"') == 2
