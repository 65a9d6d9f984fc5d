"""Task, solver and scorer in inspect_ai's own evaluation, with its own client of a local server and its mock model.

Needs inspect_ai in an environment of its own: `make faces` installs it and `make test-faces` runs this.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai")
from inspect_ai import Task as InspectTask
from inspect_ai import eval as inspect_eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ContentImage, ModelOutput, ModelUsage, get_model
from tests.models.wire_server import running
from tests.plugins.serve.face_pages import run_page
from tests.plugins.serve.summed import says

from saccade.dialects.base import load_dialect
from saccade.errors import RegistryError, SettingsError
from saccade.media.store import MediaStore
from saccade.plugins.integrations.inspect.parts import TRAJECTORY, dataset, graded, look, look_again
from saccade.record.content import Answer, Code
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory
from saccade.rewards.reward import Graded
from saccade.tasks.sources.task_set import names_of, task_of

pytestmark = [
    pytest.mark.faces,
    pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux"),
    # inspect_ai and what it imports use what newer versions of Python and of each other give up.
    pytest.mark.filterwarnings("ignore"),
]
WORLD = ("nested-squares",)
DIALECT = load_dialect("pyvision")
LOOK = DIALECT.write(Code(code="print(image_clue_0.size)\nimage_clue_0.crop((0, 0, 40, 40)).show()"), "I look.")


def answer(text: str) -> str:
    return DIALECT.write(Answer(text=text), "So.")


def without_stops(text: str) -> str:
    """As a provider sends it: the stop string swallowed."""
    for stop in DIALECT.stop:
        text = text.split(stop)[0]
    return text


def gold(store: MediaStore) -> Task:
    return task_of(WORLD, names_of(WORLD, 1)[0], store)


def evaluated(task: InspectTask, folder: Path, *texts: str) -> EvalLog:
    outputs = [ModelOutput.from_content("mockllm", without_stops(text)) for text in texts]
    for output in outputs:  # else the mock counts tokens, with a table from the network
        output.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
    model = get_model("mockllm/model", custom_outputs=outputs)
    (log,) = inspect_eval(task, model=model, log_dir=str(folder), display="none")
    return log


def test_the_loop_is_a_solver_and_the_grader_a_scorer(tmp_path: Path) -> None:
    right = gold(MediaStore(tmp_path / "store")).answer or ""
    log = evaluated(look(sources=list(WORLD), n=1), tmp_path / "logs", LOOK, answer(right))
    assert log.status == "success", log.error
    assert log.samples is not None
    (sample,) = log.samples
    trajectory = Trajectory.model_validate(sample.store[TRAJECTORY])
    assert [turn.action.kind for turn in trajectory.turns] == ["code", "answer"]
    # The record holds exactly what was sampled, the swallowed stop string put back.
    assert trajectory.turns[0].text == LOOK
    assert trajectory.turns[0].execution is not None
    assert len(trajectory.turns[0].execution.pictures) == 1
    assert {score.value for score in Graded()(trajectory)} == {1.0}
    (score,) = (sample.scores or {}).values()
    assert (score.value, score.answer, (score.metadata or {})["correct"]) == (1.0, right, 1.0)
    shown = [part for message in sample.messages for part in message.content if isinstance(part, ContentImage)]
    assert len(shown) == 2
    assert sum(event.event == "model" for event in sample.events) == 2


def test_a_wrong_answer_and_a_reward_preset(tmp_path: Path) -> None:
    task = look(sources="nested-squares", n=1, rubric="pyvision-rl")
    log = evaluated(task, tmp_path, DIALECT.write(Code(code="1 / 0"), "I err."), answer("none at all"))
    assert log.samples is not None
    (score,) = (log.samples[0].scores or {}).values()
    assert score.value == 0.0
    assert (score.metadata or {})["reward.accuracy"] == 0.0


def test_a_task_without_gold_answer_is_unscored(tmp_path: Path) -> None:
    lines = tmp_path / "questions.jsonl"
    from PIL import Image

    Image.new("RGB", (64, 48), "red").save(tmp_path / "red.png")
    lines.write_text(json.dumps({"id": "one", "question": "Which colour?", "image": "red.png"}) + "\n")
    log = evaluated(look(sources=[str(lines)]), tmp_path / "logs", answer("red"))
    assert log.status == "success", log.error
    assert log.samples is not None
    (score,) = (log.samples[0].scores or {}).values()
    assert isinstance(score.value, float)
    assert math.isnan(score.value)
    assert score.reason == "no_gold_answer"


def test_an_outage_is_an_error_and_not_a_wrong_answer(tmp_path: Path) -> None:
    task = look(sources="nested-squares", n=1, settings={"sandbox": "http://127.0.0.1:9", "retry": {"tries": 1}})
    log = evaluated(task, tmp_path, LOOK, answer("1"))
    assert log.status == "error"
    assert log.samples is not None
    assert not log.samples[0].scores
    assert log.samples[0].error is not None


def test_what_cannot_work_is_refused_before_the_first_sample(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nested-squares"):
        look(sources="nested-square")
    with pytest.raises(RegistryError):
        look_again(dialect="pyvisoin")
    with pytest.raises(SettingsError, match="function calling"):
        look_again(dialect="native")
    with pytest.raises(SettingsError, match="limits"):
        look_again(settings={"limit": {"turns": 2}})
    with pytest.raises(SettingsError, match="judge"):
        graded(rubric="codev")
    foreign = InspectTask(dataset=MemoryDataset([Sample(input="1 + 1?")]), solver=look_again(), scorer=graded())
    log = evaluated(foreign, tmp_path, answer("2"))
    assert log.status == "error"
    assert "no source of ours" in str(log.error)


def test_other_solvers_get_pictures_and_question() -> None:
    (sample,) = dataset(WORLD, 1)
    assert isinstance(sample.input, list)
    kinds = [part.type for part in sample.input[0].content if not isinstance(part, str)]
    assert kinds == ["image", "text"]
    assert sample.target


def test_the_command_line_plays_it_with_a_model_of_openais_protocol(tmp_path: Path) -> None:
    right = gold(MediaStore(tmp_path / "store")).answer or ""
    key = "a-key-that-nobody-may-see"
    with running() as server:
        server.will(*says(LOOK, answer(right)))
        command = [
            *(str(Path(sys.executable).parent / "inspect"), "eval", "saccade/look"),
            *("-T", "sources=nested-squares", "-T", "n=1", "--display", "none", "--log-dir", str(tmp_path / "logs")),
            *("--model", "openai-api/local/m", "--model-base-url", f"{server.url}/v1"),
        ]
        environment = {**os.environ, "LOCAL_API_KEY": key}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(server.bodies) == 2
        assert server.bodies[0]["stop"] == list(DIALECT.stop)
    (file,) = (tmp_path / "logs").glob("*.eval")
    log = read_eval_log(str(file))
    assert log.status == "success", log.error
    assert log.results is not None
    assert log.results.scores[0].metrics["mean"].value == 1.0
    assert key not in done.stdout + done.stderr
    assert key not in log.model_dump_json()


def test_the_page_runs(tmp_path: Path) -> None:
    with running() as server:
        server.will(*says(answer("3")))
        key = {"LOCAL_API_KEY": "k"}
        _, said = run_page("inspect", tmp_path, OPENAI_BASE_URL=f"{server.url}/v1", **key)
        assert len(server.bodies) == 2
    assert said.startswith("success")
