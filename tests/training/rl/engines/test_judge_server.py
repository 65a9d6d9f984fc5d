"""A server for models that judge: when it is started, where, on which GPUs, and that it never outlives the run."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.training.rl.engines.judges import gone, started, vllm
from tests.training.rl.train.support import metrics, rl_settings, toy, write_tasks

from saccade.core.settings import differences
from saccade.errors import ModelLostError, SettingsError, UnavailableError
from saccade.training.memory import MemoryPlan
from saccade.training.rl.engines.judge_server import (
    ServedJudge,
    check_judge,
    judge_command,
    judge_gpus,
    judge_server,
    served_judge,
)
from saccade.training.rl.engines.settings import JudgeServerSettings
from saccade.training.rl.engines.vllm_process import free_port
from saccade.training.rl.recipe import RewardSettings
from saccade.training.rl.run import plan_memory, train
from saccade.training.rl.settings import MAY_DIFFER, load_rl_settings


def reward(port: int, **more: Any) -> RewardSettings:
    judge = f"vllm:org/judge@http://localhost:{port}/v1"
    return RewardSettings.model_validate({"preset": "codev@1:paper", "judge": "model", "judge_model": judge, **more})


@pytest.mark.parametrize(
    ("models", "judge"),
    [
        ({}, ServedJudge("org/judge", 8000)),
        ({"answer_judge": "vllm:org/judge@http://127.0.0.1:8000/v1"}, ServedJudge("org/judge", 8000)),
        ({"answer_judge": "openai:gpt-4.1"}, ServedJudge("org/judge", 8000)),
        ({"answer_judge": "vllm:other@http://10.0.0.7:8000/v1"}, ServedJudge("org/judge", 8000)),
        ({"judge_model": "", "answer_judge": "vllm:/m/72B@http://localhost:9/"}, ServedJudge("/m/72B", 9)),
        ({"answer_judge": "vllm:org/other@http://localhost:8000/v1"}, None),
        ({"answer_judge": "vllm:org/judge@http://localhost:8001/v1"}, None),
        ({"judge_model": "openai:gpt-4.1"}, None),
        ({"judge_model": "vllm:org/judge"}, None),
        ({"judge_model": "vllm:org/judge@https://localhost:8000/v1"}, None),
    ],
)
def test_the_model_on_this_machine_is_served(models: dict[str, str], judge: ServedJudge | None) -> None:
    given = reward(8000, **models)
    if judge is not None:
        assert served_judge(given) == judge
        return
    with pytest.raises(SettingsError, match=r"judge\.gpus starts one server"):
        served_judge(given)


@pytest.mark.parametrize(("gpus", "there", "others", "devices"), [(2, 8, 6, [6, 7]), (1, 8, 4, [7]), (0, 0, 1, [])])
def test_the_last_gpus_judge(gpus: int, there: int, others: int, devices: list[int]) -> None:
    assert judge_gpus(JudgeServerSettings(gpus=gpus), there, others) == devices


@pytest.mark.parametrize(("gpus", "there", "others"), [(2, 8, 7), (1, 0, 1), (8, 8, 1)])
def test_too_few_gpus_are_said(gpus: int, there: int, others: int) -> None:
    with pytest.raises(SettingsError, match=f"need {gpus + others} GPUs; this machine has {there}"):
        judge_gpus(JudgeServerSettings(gpus=gpus), there, others)


def test_the_command() -> None:
    settings = JudgeServerSettings(gpus=2, options=("--max-model-len", "9000"))
    assert judge_command(settings, ServedJudge("org/judge", 8000), "/bin/vllm") == [
        *("/bin/vllm", "serve", "org/judge", "--served-model-name", "org/judge", "--host", "127.0.0.1"),
        *("--port", "8000", "--tensor-parallel-size", "2", "--max-model-len", "9000"),
    ]


def test_a_recipe_or_the_command_line_says_so(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('dialect = "codev@1"\n[reward]\npreset = "pyvision-rl@1:paper"\n[judge]\ngpus = 2\n')
    settings = load_rl_settings(recipe)
    assert (settings.judge, settings.recipe.judge) == (JudgeServerSettings(gpus=2), None)
    other = load_rl_settings(recipe, overrides=["judge.gpus=1", "judge.program=/opt/vllm"])
    assert other.judge == JudgeServerSettings(gpus=1, program="/opt/vllm")
    changed = {item.name for item in differences(settings, other)}
    assert changed <= set(MAY_DIFFER), "a run is resumed with another server"


def test_it_answers_in_the_block_and_has_ended_after_it(tmp_path: Path) -> None:
    settings = JudgeServerSettings(gpus=0, program=str(vllm(tmp_path)))

    def interrupted() -> None:
        with judge_server(settings, reward(free_port()), tmp_path / "logs", 1) as server:
            assert server is not None
            assert server.ended() is None
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    ((process, gpus, _),) = started(tmp_path)
    assert gpus == "", "it leaves the GPUs of the run alone"
    assert gone(process)
    with judge_server(JudgeServerSettings(), reward(1), tmp_path, 1) as nothing:
        assert nothing is None


@pytest.mark.slow  # test_vllm_process.py has the same of any server
def test_it_ends_when_the_run_is_killed(tmp_path: Path) -> None:
    program = textwrap.dedent(
        f"""
        import time
        from pathlib import Path
        from saccade.training.rl.engines.judge_server import judge_server
        from saccade.training.rl.engines.settings import JudgeServerSettings
        from saccade.training.rl.recipe import RewardSettings

        settings = JudgeServerSettings(gpus=0, program={str(vllm(tmp_path))!r})
        reward = RewardSettings.model_validate_json({reward(free_port()).model_dump_json()!r})
        with judge_server(settings, reward, Path({str(tmp_path)!r}), 1):
            print("up", flush=True)
            time.sleep(600)
        """
    )
    run = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stdout.readline() == "up\n"
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    ((process, _, _),) = started(tmp_path)
    assert gone(process)


def test_what_is_in_the_way_is_said_first(tmp_path: Path) -> None:
    port, settings = free_port(), JudgeServerSettings(gpus=0, program=str(vllm(tmp_path)))
    with judge_server(settings, reward(port), tmp_path, 1), pytest.raises(SettingsError, match=f"at port {port}"):
        check_judge(settings, reward(port), 1)
    with pytest.raises(UnavailableError, match=r"judge\.program"):
        check_judge(JudgeServerSettings(gpus=0, program="no-such"), reward(port), 1)
    broken = JudgeServerSettings(gpus=0, program=str(vllm(tmp_path, "#!/bin/sh\necho no weights; exit 3\n")))
    with pytest.raises(ModelLostError, match="no weights"), judge_server(broken, reward(port), tmp_path, 1):
        raise AssertionError("it never came up")


def test_a_run_starts_its_judge_is_judged_and_ends_it(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    judge = f"vllm:org/judge@http://localhost:{free_port()}/v1"
    recipe = {"steps": 1, "reward": {"preset": "x", "answer_judge": judge, "open_tags": ["*"]}}
    settings = rl_settings(
        tiny,
        write_tasks(tmp_path / "tasks", 2),
        recipe=recipe,
        judge={"gpus": 0, "program": str(vllm(tmp_path))},
    )
    train(settings, tmp_path / "run")
    ((process, _, arguments),) = started(tmp_path)
    assert arguments[:2] == ["serve", "org/judge"]
    assert gone(process)
    assert metrics(tmp_path / "run")[0]["accuracy"] > 0.5, "of noise no rule would say so"
    assert "/servers/" not in "".join(str(path) for path in (tmp_path / "run" / "model").iterdir())


@pytest.mark.slow
def test_six_train_and_two_judge_is_a_setting_that_is_planned() -> None:
    given = ["model.source=Qwen/Qwen2.5-VL-7B-Instruct", "judge.gpus=2"]
    plan = plan_memory(load_rl_settings("codev", None, given), 6, "cuda")
    judging = plan.phases[-1]
    assert judging.total / 2**30 == pytest.approx(33.45e9 * 2 / 2 / 2**30, rel=0.01)  # 33.45 billion weights
    assert "2 more GPUs judge: the run starts vLLM with Qwen/Qwen2.5-VL-32B-Instruct" in plan.notes[-1]
    plan.check(80)
    with pytest.raises(SettingsError, match=r"judging.*raise judge\.gpus"):
        MemoryPlan("a judge on small GPUs", (judging,)).check(32)
