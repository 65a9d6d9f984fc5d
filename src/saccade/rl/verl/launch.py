"""A run on verl's trainer: written down, started, watched, and ended with a checkpoint of our form.

    OUT/settings.toml  metrics.jsonl  samples.jsonl  rollouts/  checkpoints/ (verl's)  model/
    OUT/verl/run.yaml  train.parquet  validation.parquet  loop.yaml  log-N.jsonl  said.jsonl  verl.log  ray.log

verl runs in a process of its own over the Ray cluster that `RAY_ADDRESS` names, or one that is started for it. A run
that is resumed continues from verl's last checkpoint. All machines must see OUT under the same path.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from saccade.core import sync
from saccade.dialects.registry import load_dialect
from saccade.episode.run_folder import MEDIA
from saccade.episode.settings import sandbox_at
from saccade.errors import SettingsError, TrainingError, UnavailableError
from saccade.media.store import MediaStore
from saccade.models.learned_dialect import write_learned
from saccade.record.disk import begin_folder, finish_folder
from saccade.record.settings import save_settings
from saccade.rl.engines.guarded_process import GuardedProcess
from saccade.rl.engines.local_ray import ADDRESS, local_ray
from saccade.rl.train.check_tasks import open_checked, warn_of_run
from saccade.rl.train.curriculum import chosen_before
from saccade.rl.train.scoring import load_scorer
from saccade.rl.train.settings import MAY_DIFFER, MAY_GROW, RlSettings, check_settings
from saccade.rl.train.tasks import TaskList, as_list, validation_tasks
from saccade.rl.train.trainers import check_trainer
from saccade.rl.verl.checkpoints import check_same_tasks, last_checkpoint
from saccade.rl.verl.mapping import PART, nested, verl_lines
from saccade.rl.verl.metrics import new_log, write_metrics
from saccade.rl.verl.policy import load_policy
from saccade.rl.verl.refused import check_family, check_on_verl
from saccade.rl.verl.rows import ROWS, training_rows, validation_rows, write_rows
from saccade.rl.verl.said import SAID, SaidAgain
from saccade.rl.verl.settings import verl_of
from saccade.sandbox.registry import is_local
from saccade.training.folder import SETTINGS, check_folder

_LOOK = 1.0
_ANSWER_SECONDS = 20.0
_ERROR = re.compile(r"(\w+\.)*\w*(Error|Exception): ")
"""Beginning of the last line of a traceback."""
_CPU = {
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",  # under this name verl has its FSDP engine
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def train_on_verl(settings: RlSettings, out: Path, *, resume: bool = False) -> Path:
    """Train as `settings` say, in the folder `out`; the folder of the trained checkpoint.

    Raises:
        SettingsError: a setting is missing or wrong, cannot be followed on verl, this machine has fewer GPUs, or `out`
            holds another run.
        UnavailableError: verl is not installed in this environment, or Ray does not start or answer.
        ModelRefusedError: the checkpoint's tokens cannot be loaded.
        SandboxError: a sandbox host cannot be reached, or this machine cannot isolate a sandbox.
        TrainingError: verl ended with an error, or stood still for too long; or its last checkpoint is not complete, or
            was trained on other tasks.
    """
    check_settings(settings)
    check_on_verl(settings)
    _need_verl()
    _need_cluster(settings)
    out = out.resolve()
    check_trainer(out, verl_of(settings).name)
    check_folder(settings, out, resume, (*MAY_DIFFER, "trainer.turn_seconds", "trainer.step_seconds"), MAY_GROW)
    check_family(load_policy(settings.model.source).encoder.family.model_type, settings.model.source)
    rows = training_rows(settings, _checked_tasks(settings, out))
    check_same_tasks(out, rows)
    begun = _last_checkpoint(settings, out)
    if begun is None or begun[0] < settings.recipe.steps:
        sync.run(_check_sandbox(settings))
        prepare(settings, out, rows)
        _train(settings, out)
    return _exported(settings, out)


def _train(settings: RlSettings, out: Path) -> None:
    """Run verl from its last checkpoint to the end of the run."""
    variables = environment(settings, out)
    try:
        with local_ray(out / "verl" / "ray.log", variables, *_resources(settings)) as cluster:
            _watched(settings, out, {**variables, **cluster})
    finally:
        step = write_metrics(out, settings.recipe.optimizer.updates * settings.recipe.optimizer.epochs)
    if step < settings.recipe.steps:
        raise TrainingError(f"verl ended after {step} of {settings.recipe.steps} steps; {out}/verl/verl.log says why")


def prepare(settings: RlSettings, out: Path, rows: list[dict[str, Any]]) -> None:
    """Write everything that verl reads into `out`; `rows` are the tasks."""
    folder = out / "verl"
    folder.mkdir(parents=True, exist_ok=True)
    save_settings(settings, out / SETTINGS)
    write_rows(rows, folder / ROWS)
    validation = settings.validation
    held_out = None
    if validation.every:
        dialect = load_dialect(settings.recipe.dialect)
        held_out = validation_tasks(validation.source, settings.sources, validation.tasks, dialect)
    write_rows(validation_rows(held_out), folder / "validation.parquet")
    loop = {"name": PART, "_target_": "saccade.rl.verl.agent_loop.SaccadeLoop", "out": str(out)}
    # JSON is YAML.
    (folder / "loop.yaml").write_text(json.dumps([loop], indent=1), encoding="utf-8")
    config = {"defaults": ["ppo_trainer", "_self_"], **nested(verl_lines(settings, out))}
    # Hydra would make a folder where the command is run.
    config["hydra"] = {"run": {"dir": str(folder)}, "output_subdir": None}
    ray = config.setdefault("ray_kwargs", {}).setdefault("ray_init", {}).setdefault("runtime_env", {})
    ray["env_vars"] = environment(settings, out)
    (folder / "run.yaml").write_text(json.dumps(config, indent=1), encoding="utf-8")


def environment(settings: RlSettings, out: Path) -> dict[str, str]:
    """Variables of every process of verl."""
    variables = {"VERL_FILE_LOGGER_PATH": str(new_log(out)), "TENSORBOARD_DIR": str(out / "tensorboard")}
    optimizer = settings.recipe.optimizer
    if optimizer.updates == optimizer.epochs == 1:
        variables["SACCADE_VERL_MAX_LOGPROB_DIFF"] = str(settings.max_logprob_diff or 1.0)
    return variables | (_CPU if verl_of(settings).device == "cpu" else {})


def _checked_tasks(settings: RlSettings, out: Path) -> TaskList:
    """The tasks that are trained on, and warnings about them."""
    recipe = settings.recipe
    tasks, store = as_list(open_checked(settings)), MediaStore(out / "rollouts" / MEDIA)
    if recipe.curriculum is not None:
        tasks = tasks.only(chosen_before(tasks, recipe.curriculum, Path(verl_of(settings).pass_rates)))
    scorer = load_scorer(recipe.reward, store, out / "judge")
    try:
        warn_of_run(recipe, load_dialect(recipe.dialect), tasks, scorer, store)
    finally:
        sync.run(scorer.close())
    return tasks


async def _check_sandbox(settings: RlSettings) -> None:
    """Start the sandbox that each worker will start: what is wrong with it is told before verl begins."""
    if is_local(settings.sandbox) and verl_of(settings).nodes > 1:
        return  # episodes may be played on other machines than this one
    dialect = settings.session.applied(load_dialect(settings.recipe.dialect), settings.sandbox)
    async with sandbox_at(settings.sandbox, dialect.sandbox):
        pass


def _watched(settings: RlSettings, out: Path, variables: Mapping[str, str]) -> None:
    """Run verl with these variables until it ends, or stands still."""
    folder = out / "verl"
    (folder / "alive").touch()
    said = SaidAgain(out)
    process = GuardedProcess([*_command(folder), *verl_of(settings).options], variables, folder / "verl.log")
    try:
        while (code := process.ended()) is None:
            still = time.time() - _last_change(out)
            if still > verl_of(settings).step_seconds:
                raise TrainingError(
                    f"verl has stood still for {still:.0f} s (trainer.step_seconds) and was ended. "
                    f"{process.last_words()} Continue with --resume."
                )
            said.say()
            time.sleep(_LOOK)
    finally:
        process.stop()
        said.say()
    if code:
        raise TrainingError(f"verl ended with code {code}. {_cause(process)} Continue with --resume.")


def _resources(settings: RlSettings) -> list[str]:
    """Of a Ray of our own; on a CPU they are those that verl asks for, whatever the machine has."""
    if verl_of(settings).device == "gpu":
        return []
    return ["--num-gpus", str(verl_of(settings).gpus), "--num-cpus", "48", "--object-store-memory", "500000000"]


def _command(folder: Path) -> list[str]:
    """verl's trainer with the configuration in `folder`."""
    return [sys.executable, "-m", "verl.trainer.main_ppo", "--config-dir", str(folder), "--config-name", "run"]


def _cause(process: GuardedProcess) -> str:
    """Why verl ended, as its log tells: the last error, for much is said after it."""
    with process.log.open(encoding="utf-8", errors="replace") as lines:
        errors = [line.strip() for line in lines if _ERROR.match(line)]
    return f"{errors[-1]} ({process.log})." if errors else process.last_words()


def _last_change(out: Path) -> float:
    """When something was last played, trained, validated or said."""
    files = [*(out / "verl").glob("*"), out / "rollouts" / MEDIA, out / "rollouts" / "trajectories.jsonl"]
    return max(path.stat().st_mtime for path in files if path.exists() and path.name not in ("verl.log", SAID))


def _exported(settings: RlSettings, out: Path) -> Path:
    """The last checkpoint's model, as our own trainer writes it."""
    last = _last_checkpoint(settings, out)
    if last is None:
        raise TrainingError(f"verl ended without a checkpoint; {out}/verl/verl.log says why")
    model = out / "model"
    partial = begin_folder(model)
    shutil.copytree(last[1] / "actor" / "huggingface", partial, dirs_exist_ok=True)
    write_learned(partial, {load_dialect(settings.recipe.dialect).id: 1})
    finish_folder(model)
    return model


def _last_checkpoint(settings: RlSettings, out: Path) -> tuple[int, Path] | None:
    return last_checkpoint(out, verl_of(settings).nodes * verl_of(settings).gpus)


def _need_verl() -> None:
    for package in ("verl", "ray", "vllm"):
        if importlib.util.find_spec(package) is None:
            raise UnavailableError(
                f"the package `{package}` is not installed in this environment. verl needs one of its own, with an "
                "older transformers: docs/engines.md says how to make it; then run its `saccade`."
            )


def _need_cluster(settings: RlSettings) -> None:
    nodes, gpus = verl_of(settings).nodes, verl_of(settings).gpus
    if address := os.environ.get(ADDRESS):
        _need_answer(address)
        return
    if nodes > 1:
        raise SettingsError(
            f"trainer.nodes is {nodes}, and no Ray cluster over them is named. Run `ray start` on each machine and set "
            f"{ADDRESS}, or leave trainer.nodes at 1 for a Ray of this machine alone."
        )
    there = torch.cuda.device_count()
    if verl_of(settings).device == "gpu" and gpus > there:
        raise SettingsError(
            f"trainer.gpus is {gpus}, and this machine has {there} GPUs. Say --gpus {there or 1}, or name a Ray "
            f"cluster that has them in {ADDRESS}; to try a run without a GPU: --set trainer.device=cpu."
        )


def _need_answer(address: str) -> None:
    """Raises `UnavailableError` where nobody listens at `host:port`: Ray itself tries for minutes before it says so."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or "://" in address:
        return  # `auto` and the like, which Ray looks up itself
    try:
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
    except OSError as error:
        raise UnavailableError(
            f"no Ray cluster answers at {address} ({ADDRESS}): {error}. Start one there (`ray start --head`), or unset "
            f"{ADDRESS} for a Ray of this machine alone."
        ) from error
