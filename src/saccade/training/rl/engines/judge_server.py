"""Start the vLLM server of the models that judge for a run, at the address that the recipe names, and end it.

    with judge_server(settings.judge, recipe.reward, Path("runs/rl/servers"), others=6):
        ...                                   # reward.judge_model answers at http://localhost:8000/v1

The GPUs of the machine are divided in this order: those that train, those that serve rollouts, those that judge.
"""

from __future__ import annotations

import logging
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from saccade.core import sync
from saccade.errors import SettingsError, UnavailableError
from saccade.training.rl.engines.settings import JudgeServerSettings
from saccade.training.rl.engines.vllm_process import ServerProcess, cpu_variables, visible_gpus
from saccade.training.rl.recipe import RewardSettings

_log = logging.getLogger(__name__)
_HERE: Final = re.compile(r"vllm:(?P<name>[^@]+)@http://(?P<host>localhost|127\.0\.0\.1):(?P<port>\d+)(/v1)?/?")


@dataclass(frozen=True, slots=True)
class ServedJudge:
    """The model that judges, and where."""

    name: str
    """A folder, or a name on the hub."""
    port: int

    @property
    def address(self) -> str:
        """Of the server, without `/v1`."""
        return f"http://127.0.0.1:{self.port}"


def served_judge(reward: RewardSettings) -> ServedJudge:
    """Return the model on this machine that the reward asks. Raises `SettingsError`: it asks none, or several."""
    models = (reward.judge_model, reward.answer_judge, reward.consistency_judge)
    found = {ServedJudge(named["name"], int(named["port"])) for model in models if (named := _HERE.fullmatch(model))}
    if len(found) == 1:
        return found.pop()
    listed = ", ".join(sorted(f"{judge.name} at port {judge.port}" for judge in found)) or "none on this machine"
    raise SettingsError(
        f"judge.gpus starts one server for a model that judges, and the reward names {listed}. Name one, such as "
        "reward.judge_model=vllm:Qwen/Qwen2.5-VL-32B-Instruct@http://localhost:8000/v1, and start others yourself on "
        "another machine; or leave judge.gpus out."
    )


def judge_gpus(settings: JudgeServerSettings, there: int, others: int) -> list[int]:
    """Return the GPUs that judge, the last ones of `there`, of which `others` train or serve rollouts; [] is the CPU.

    Raises `SettingsError`: there are too few.
    """
    gpus = settings.gpus or 0
    if gpus and gpus + others > there:
        raise SettingsError(
            f"judge.gpus={gpus} and {others} that train or serve need {gpus + others} GPUs; this machine has {there}. "
            "Lower judge.gpus, engine.gpus, --processes or --gpus, or leave judge.gpus out and name a judge elsewhere."
        )
    return list(range(there - gpus, there))


def judge_command(settings: JudgeServerSettings, judge: ServedJudge, program: str) -> list[str]:
    """Return the command that starts the server."""
    gpus = ["--tensor-parallel-size", str(settings.gpus)] if settings.gpus and settings.gpus > 1 else []
    return [
        *(program, "serve", judge.name, "--served-model-name", judge.name),
        *("--host", "127.0.0.1", "--port", str(judge.port)),
        *gpus,
        *settings.options,
    ]


def check_judge(settings: JudgeServerSettings, reward: RewardSettings, others: int) -> tuple[ServedJudge, str]:
    """Check a server that is to be started before anything is loaded; return its model and the program.

    Raises `SettingsError`: there are too few GPUs, the reward names no model for it, or its port is taken;
    `UnavailableError`: vLLM is not installed.
    """
    judge = served_judge(reward)
    judge_gpus(settings, torch.cuda.device_count(), others)
    program = shutil.which(settings.program)
    if program is None:
        raise UnavailableError(
            f"there is no program {settings.program!r}, and judge.gpus starts it. Install vLLM, best in an environment "
            "of its own, and name it: --set judge.program=/path/to/bin/vllm"
        )
    try:
        socket.create_connection(("127.0.0.1", judge.port), 5).close()
    except OSError:
        return judge, program
    raise SettingsError(
        f"something answers at port {judge.port} of this machine already. Leave judge.gpus out to ask it, end it, or "
        "name another port in the judge's address."
    )


@contextmanager
def judge_server(
    settings: JudgeServerSettings, reward: RewardSettings, logs: Path, others: int
) -> Iterator[ServerProcess | None]:
    """Start the server, if there is to be one, and wait until it answers; it has ended when the block is left.

    A guard ends it too where this process is killed. `others` GPUs train or serve rollouts; what it prints goes to
    `logs`/judge.log. Raises `SettingsError`, `UnavailableError`: as `check_judge`; `ModelLostError`: it ended, or is
    not ready in time.
    """
    if settings.gpus is None:
        yield None
        return
    judge, program = check_judge(settings, reward, others)
    gpus = judge_gpus(settings, torch.cuda.device_count(), others)
    variables = {"VLLM_NO_USAGE_STATS": "1", "CUDA_VISIBLE_DEVICES": visible_gpus(gpus)}
    variables |= {} if gpus else cpu_variables()
    command = judge_command(settings, judge, program)
    server = ServerProcess(command, variables, judge.address, logs / "judge.log", "judge.ready_seconds")
    try:
        sync.run(server.wait_until_ready(settings.ready_seconds))
        _log.info("%s judges at %s; its server prints to %s.", judge.name, server.address, server.log)
        yield server
    finally:
        server.stop()
