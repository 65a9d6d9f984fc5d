"""Run verl's trainer: write its configuration, start it, watch it, and export a checkpoint of our form.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch

from saccade.core import sync
from saccade.core.disk import begin_folder, finish_folder, one_writer, write_atomic
from saccade.core.settings import save_settings
from saccade.dialects.base import load_dialect
from saccade.episode.run_folder import MEDIA, RunFolder
from saccade.errors import SettingsError, TrainingError, UnavailableError
from saccade.media.store import MediaStore
from saccade.models.local_text import write_learned
from saccade.plugins.verl.agent_loop import Carried, load_policy
from saccade.plugins.verl.local_ray import ADDRESS, local_ray
from saccade.plugins.verl.mapping import (
    PART,
    ROWS,
    check_family,
    check_on_verl,
    nested,
    read_names,
    training_rows,
    validation_rows,
    verl_lines,
    verl_of,
    write_rows,
)
from saccade.plugins.verl.said import SAID, SaidAgain
from saccade.sandbox.registry import is_local, sandbox_at
from saccade.tasks.sources.settings import LEFT_OUT, BrokenTasks
from saccade.training.rl.curriculum import chosen_before
from saccade.training.rl.engines.judge_server import check_judge, judge_server
from saccade.training.rl.engines.vllm_process import GuardedProcess, visible_gpus
from saccade.training.rl.metrics import (
    StepTiming,
    UpdateMetrics,
    open_rollout_store,
    rollout_metrics,
    step_metrics,
    validation_sample,
    with_worth,
)
from saccade.training.rl.rollout import Rollout, RolloutGroup
from saccade.training.rl.scoring import load_scorer
from saccade.training.rl.select import Selection
from saccade.training.rl.settings import MAY_DIFFER, MAY_GROW, RlSettings, check_settings, check_trainer
from saccade.training.rl.tasks import TaskList, as_list, open_checked, validation_tasks, warn_of_run
from saccade.training.settings import SETTINGS, check_folder

# Where the folder of the last checkpoint is gone, verl 0.9.1 begins anew, and where the place in the data set is
# missing, with the first tasks again; it only logs that. So both are checked before verl is started.

_PARTS = ("model", "optim", "extra_state")
"""Log of each process."""


def check_same_tasks(out: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raises `TrainingError` where a run in `out` was begun with other tasks than those of `rows`."""
    file = out / "verl" / ROWS
    before = read_names(file) if file.exists() else []
    now = [row["extra_info"]["task"] for row in rows[: len(before)]]
    if before != now:
        raise TrainingError(
            f"the run in {out} was begun with other tasks. Put the old ones back, or begin anew in another folder."
        )


def last_checkpoint(out: Path, ranks: int) -> tuple[int, Path] | None:
    """Return step and folder of the last checkpoint of a run in `out` with `ranks` processes; None before the first.

    Raises `TrainingError`: it is not complete.
    """
    marker = out / "checkpoints" / "latest_checkpointed_iteration.txt"
    if not marker.exists():
        return None
    said = marker.read_text(encoding="utf-8").strip()
    if not said.isdecimal():
        raise TrainingError(f"{marker} should hold the step of the last checkpoint, and holds {said!r}")
    folder = out / "checkpoints" / f"global_step_{said}"
    files = ["data.pt", "actor/huggingface/config.json"]
    files += [f"actor/{part}_world_size_{ranks}_rank_{rank}.pt" for part in _PARTS for rank in range(ranks)]
    if missing := [name for name in files if not (folder / name).is_file()]:
        raise TrainingError(
            f"the last checkpoint of this run is not complete: {folder} lacks {len(missing)} of {len(files)} files, "
            f"{missing[0]} first. Put them back, write the step of an earlier checkpoint that is complete into "
            f"{marker}, or begin anew in another folder."
        )
    return int(said), folder


VALIDATIONS: Final = "validations.jsonl"
BEGINNING: Final = "saccade/"
"""Of our numbers in verl's log."""
_SAMPLES = 4
_NOT_KNOWN = ("updates", "learning_rate")
"""Numbers of a step that verl's trainer has."""


class VerlJournal:
    """Keeps rollouts, their numbers and held-out answers; written by the process of verl's trainer only."""

    def __init__(self, out: Path, settings: RlSettings) -> None:
        """Write nothing yet."""
        self._out = out
        self._settings = settings
        self._folder: RunFolder | None = None

    def step(
        self, number: int, rollouts: Sequence[Rollout], selection: Selection, carried: Sequence[Carried], seconds: float
    ) -> dict[str, float]:
        """Keep what step `number` (from 1) keeps, and give its numbers under the names that verl logs.

        Raises `RecordError`: the folder of the rollouts cannot be written to.
        """
        steps, every = self._settings.recipe.steps, self._settings.rollouts.every
        if every and (number % every == 0 or number == steps):
            folder = self._opened(rollouts)
            for rollout in rollouts:
                if rollout.id not in folder:
                    folder.append(with_worth(rollout))
        timing = StepTiming(decoding=seconds, replayed=_replayed(carried))
        values = step_metrics(rollouts, selection, UpdateMetrics(), timing, 0.0)
        kept = {name: value for name, value in values.items() if not name.startswith("seconds/")}
        return {f"{BEGINNING}{name}": value for name, value in kept.items() if name not in _NOT_KNOWN}

    def validation(self, step: int, groups: Sequence[RolloutGroup]) -> None:
        """Write the numbers of the answers after `step` steps."""
        rollouts = [item for group in groups for item in group.rollouts]
        values = dict(rollout_metrics(rollouts))
        if self._settings.validation.samples > 1:
            values["pass_at_k"] = sum(any(item.right for item in group.rollouts) for group in groups) / len(groups)
        shown = [validation_sample(item) for item in rollouts[:_SAMPLES]]
        line = {"step": step, "values": values, "samples": shown}
        with (self._out / "verl" / VALIDATIONS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def _opened(self, rollouts: Sequence[Rollout]) -> RunFolder:
        if self._folder is None:
            places = [item.trajectory.group.rpartition("@")[2] for item in rollouts]
            # Those of later tasks are of steps that a resumed run makes again.
            self._folder = open_rollout_store(self._out / "rollouts", min(map(int, places)))
        return self._folder


def _replayed(carried: Sequence[Carried]) -> int:
    """Return every rollout of a group tells that of its group."""
    return sum({one.rollout.trajectory.group: one.replayed for one in carried}.values())


NAMES: Final[Mapping[str, str]] = {
    "actor/loss": "loss",
    "actor/grad_norm": "gradient_norm",
    "actor/pg_clipfrac": "clip_fraction",
    "actor/kl_loss": "kl",
    "actor/entropy_loss": "entropy",
    "actor/logprob_gap": "logprob_gap",
    "actor/lr": "learning_rate",
    "timing_s/gen": "seconds/rollouts",
    "timing_s/update_actor": "seconds/update",
    "timing_s/update_weights": "seconds/weights",
    "timing_s/testing": "seconds/validation",
}
"""verl's name of a number -> ours."""


def new_log(out: Path) -> Path:
    """Return the file for the log of a start that is to come."""
    return out / "verl" / f"log-{len(_logs(out))}.jsonl"


def write_metrics(out: Path, updates: int) -> int:
    """Write OUT/metrics.jsonl and OUT/samples.jsonl from verl's logs; return the last step in them.

    `OUT/verl/log-N.jsonl` is the log of the N-th start; a step that was made again counts once. `updates` are those of
    a step.
    """
    steps: dict[int, dict[str, Any]] = {}
    for path in _logs(out):
        for line in _lines(path):
            steps[int(line["step"])] = {"step": int(line["step"]), **_ours(line["data"], updates)}
    made = [line for _, line in sorted(steps.items()) if len(line) > 1]
    held_out = {int(line["step"]): line for line in _lines(out / "verl" / VALIDATIONS)}
    answers = [
        {"step": step, **{f"validation/{name}": value for name, value in line["values"].items()}}
        for step, line in sorted(held_out.items())
    ]
    samples = [{"step": step, **sample} for step, line in sorted(held_out.items()) for sample in line["samples"]]
    _write(out / "metrics.jsonl", sorted([*made, *answers], key=lambda line: int(line["step"])))
    _write(out / "samples.jsonl", samples)
    return max(steps, default=0)


def _ours(data: Mapping[str, Any], updates: int) -> dict[str, Any]:
    found = {name.removeprefix(BEGINNING): value for name, value in data.items() if name.startswith(BEGINNING)}
    if not found:
        return {}
    mapped = {ours: data[theirs] for theirs, ours in NAMES.items() if theirs in data}
    return found | mapped | {"updates": updates if found.get("trained_rollouts") else 0}


def _logs(out: Path) -> list[Path]:
    return sorted((out / "verl").glob("log-*.jsonl"), key=lambda path: int(path.stem.removeprefix("log-")))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines only: a process that was killed may have cut the last one."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield json.loads(line)


def _write(path: Path, lines: list[dict[str, Any]]) -> None:
    write_atomic(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


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
    """Train as `settings` say in the folder `out`; return the folder of the trained checkpoint.

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
        with one_writer(out):
            _train(settings, out)
    return _exported(settings, out)


def _train(settings: RlSettings, out: Path) -> None:
    """Run verl from its last checkpoint to the end of the run."""
    variables = environment(settings, out)
    judge, gpus = settings.judge, verl_of(settings).gpus if verl_of(settings).device == "gpu" else 0
    # Ray would choose among all GPUs of the machine.
    seen = {"CUDA_VISIBLE_DEVICES": visible_gpus(range(gpus))} if judge.gpus and gpus else {}
    try:
        with (
            judge_server(judge, settings.recipe.reward, out / "servers", gpus),
            local_ray(out / "verl" / "ray.log", {**variables, **seen}, *_resources(settings)) as cluster,
        ):
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
    loop = {"name": PART, "_target_": "saccade.plugins.verl.loop.SaccadeLoop", "out": str(out)}
    # JSON is YAML.
    (folder / "loop.yaml").write_text(json.dumps([loop], indent=1), encoding="utf-8")
    config = {"defaults": ["ppo_trainer", "_self_"], **nested(verl_lines(settings, out))}
    # Hydra would make a folder where the command is run.
    config["hydra"] = {"run": {"dir": str(folder)}, "output_subdir": None}
    ray = config.setdefault("ray_kwargs", {}).setdefault("ray_init", {}).setdefault("runtime_env", {})
    ray["env_vars"] = environment(settings, out)
    (folder / "run.yaml").write_text(json.dumps(config, indent=1), encoding="utf-8")


def environment(settings: RlSettings, out: Path) -> dict[str, str]:
    """Return variables of every process of verl."""
    variables = {"VERL_FILE_LOGGER_PATH": str(new_log(out)), "TENSORBOARD_DIR": str(out / "tensorboard")}
    optimizer = settings.recipe.optimizer
    if optimizer.updates == optimizer.epochs == 1:
        variables["SACCADE_VERL_MAX_LOGPROB_DIFF"] = str(settings.max_logprob_diff or 1.0)
    return variables | (_CPU if verl_of(settings).device == "cpu" else {})


def _checked_tasks(settings: RlSettings, out: Path) -> TaskList:
    """Return the tasks that are trained on, and warnings about them."""
    recipe = settings.recipe
    tasks, store = as_list(open_checked(settings)), MediaStore(out / "rollouts" / MEDIA, limits=recipe.media.limits)
    tasks = replace(tasks, broken=BrokenTasks(len(tasks.ids), settings.tasks.most_broken, out / LEFT_OUT))
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
    """Tell the resources of a Ray of our own; on a CPU they are those that verl asks for, whatever the machine has."""
    if verl_of(settings).device == "gpu":
        return []
    return ["--num-gpus", str(verl_of(settings).gpus), "--num-cpus", "48", "--object-store-memory", "500000000"]


def _command(folder: Path) -> list[str]:
    """Return verl's trainer with the configuration in `folder`."""
    return [sys.executable, "-m", "verl.trainer.main_ppo", "--config-dir", str(folder), "--config-name", "run"]


def _cause(process: GuardedProcess) -> str:
    """Return why verl ended, from its log: the last error, since much is logged after it."""
    with process.log.open(encoding="utf-8", errors="replace") as lines:
        errors = [line.strip() for line in lines if _ERROR.match(line)]
    return f"{errors[-1]} ({process.log})." if errors else process.last_words()


def _last_change(out: Path) -> float:
    """Return when something was last played, trained, validated or logged."""
    files = [*(out / "verl").glob("*"), out / "rollouts" / MEDIA, out / "rollouts" / "trajectories.jsonl"]
    return max(path.stat().st_mtime for path in files if path.exists() and path.name not in ("verl.log", SAID))


def _exported(settings: RlSettings, out: Path) -> Path:
    """Return the last checkpoint's model, as our own trainer writes it."""
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
        if settings.judge.gpus is not None:
            raise SettingsError(
                f"judge.gpus keeps GPUs of this machine back, and Ray runs over a cluster of yours ({ADDRESS}), which "
                "may give them to verl. Start the judge yourself and name its address in the reward, or unset "
                f"{ADDRESS}."
            )
        _need_answer(address)
        return
    if nodes > 1:
        raise SettingsError(
            f"trainer.nodes is {nodes}, and no Ray cluster over them is named. Run `ray start` on each machine and set "
            f"{ADDRESS}, or leave trainer.nodes at 1 for a Ray of this machine alone."
        )
    there = torch.cuda.device_count()
    if settings.judge.gpus is not None:
        check_judge(settings.judge, settings.recipe.reward, gpus if verl_of(settings).device == "gpu" else 0)
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
