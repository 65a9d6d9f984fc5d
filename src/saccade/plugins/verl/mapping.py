"""Map the settings of `saccade rl` to verl's configuration: each is mapped, read by our parts, or refused.

    lines = verl_lines(settings, Path("runs/rl"))      # what `--plan` prints

Names and meanings are those of verl 0.9.1 (its `ppo_trainer.yaml`). Needs neither verl nor torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import PositiveFloat, PositiveInt

from saccade.core.settings import mistaken
from saccade.dialects.base import load_dialect
from saccade.errors import SettingsError
from saccade.tasks.benchmarks.row_files import load_pyarrow
from saccade.training.rl.recipe import Recipe
from saccade.training.rl.rollouts import check_sampling
from saccade.training.rl.select import KL_ESTIMATORS, DynamicSampling, KeepAll, OversampleFilterRank, RepoRank
from saccade.training.rl.settings import OtherTrainer, RlSettings, unserved
from saccade.training.rl.tasks import TaskList


class VerlSettings(OtherTrainer):
    """verl's trainer on Ray, on the GPUs of one or several machines (docs/engines.md)."""

    name: Literal["verl"] = "verl"
    nodes: PositiveInt = 1
    gpus: PositiveInt = 8
    """Of each node; all of them sample and train in turn."""
    device: Literal["gpu", "cpu"] = "gpu"
    """`cpu`: as many processes as `gpus` on this machine, for trying out (`make verl`)."""
    tensor_parallel: PositiveInt = 1
    """GPUs that one copy of the sampling engine is divided over."""
    workers: PositiveInt = 8
    """Processes that play episodes, over all nodes; limits of concurrency are divided among them."""
    turn_seconds: PositiveFloat = 900.0
    """How long a turn may take until its episode counts as lost, and is played again."""
    step_seconds: PositiveFloat = 7200.0
    """How long nothing may be played, trained or validated until the run is ended: a server that dies while it is given
    new weights makes verl wait for ever."""
    pass_rates: str = ""
    """For a recipe with a curriculum: `pass-rates.jsonl` of a run of this checkpoint and tasks on our own trainer."""
    options: tuple[str, ...] = ()
    """More of verl's own settings, `a.b=value`, after those that the recipe gives."""


def verl_of(settings: RlSettings) -> VerlSettings:
    """Return the table `trainer` of a run on verl. Raises `SettingsError` for a run on another trainer."""
    if not isinstance(settings.trainer, VerlSettings):
        raise SettingsError(f"the run is for the trainer {settings.trainer.name}, not for verl: add --on verl")
    return settings.trainer


def check_verl(settings: VerlSettings) -> None:
    """Raises `SettingsError` for a division that cannot be."""
    if (settings.gpus * settings.nodes) % settings.tensor_parallel:
        raise SettingsError(
            f"trainer.tensor_parallel ({settings.tensor_parallel}) does not divide the "
            f"{settings.gpus * settings.nodes} GPUs evenly; choose one that does."
        )
    if settings.device == "cpu" and settings.nodes > 1:
        raise SettingsError("trainer.device=cpu is for one machine; leave trainer.nodes at 1.")


AGGREGATES: Final = {
    "token-mean": "token-mean",
    "sequence-mean": "seq-mean-token-mean",
    "sequence-sum": "seq-mean-token-sum-norm",
}
NO_LIMIT: Final = 1e9
"""For what verl always bounds: never met."""
PART: Final = "saccade"
"""Name under which verl finds our agent loop, advantages and loss."""


@dataclass(frozen=True, slots=True)
class ConfigLine:
    """One setting of verl."""

    key: str
    """Dotted."""
    value: Any
    source: str
    """Ours that it comes from, or the reason in brackets."""


OURS: Final[Mapping[str, str]] = {
    name: part
    for part, names in {
        "episodes": (
            "recipe.dialect recipe.prompt_file recipe.prompt_names recipe.tools recipe.tool_list recipe.boxes "
            "recipe.tool_calls recipe.tool_hints recipe.rollout.limits recipe.media generation.replays session "
            "sandbox trainer.turn_seconds"
        ),
        "episodes; the temperature is verl's too": "recipe.rollout.sampling",
        "episodes of held-out tasks": "validation.limits",
        "rewards, with all judges": "recipe.reward",
        "the sampler": "recipe.rounds.groups recipe.rounds.rounds recipe.selection rollouts.every",
        "the sampler, whose advantages verl's estimator takes as they are": "recipe.advantage",
        "applied before": "recipe.profile",
        "moved to engine": "recipe.engine",
        "moved to judge": "recipe.judge",
        "the command, which starts the server beside verl's GPUs and ends it": "judge",
        "moved to model, generation and max_tokens_per_batch": "recipe.machine",
        "the data set": "recipe.source recipe.curriculum trainer.pass_rates tasks.most validation.tasks",
        "the command": "trainer.name",
        "in place of a task that cannot be made the next one is played, up to this share": "tasks.most_broken",
        "episodes, divided among trainer.workers": "generation.max_concurrency",
        "rewards": "validation.grader",
        "the loss": "max_logprob_diff",
        "workers that play episodes": "threads",
        "the command and the sampler": "trainer.step_seconds",
        "verl, as they are": "trainer.options",
        "of the engine in our own trainer's process, which a run on verl has not": "generation.cache",
        "of our own scorer; verl computes log-probabilities itself": "model.logit_chunk",
        "verl always divides weights, gradients and the optimizer's state": "model.shard",
    }.items()
    for name in names.split()
}
"""Settings of ours (with everything below them) that our parts read themselves, and which part."""


def verl_lines(settings: RlSettings, out: Path) -> list[ConfigLine]:
    """Return every setting that is given to verl, for a run in the folder `out`."""
    recipe = settings.recipe
    return [
        *_model(settings),
        *_data(settings, out),
        *_rollout(settings, out),
        *_loss(recipe),
        *_optimizer(settings),
        *_trainer(settings, out),
        *(_on_cpu(settings) if verl_of(settings).device == "cpu" else ()),
    ]


def _under(table: str, *rows: tuple[str, Any, str]) -> list[ConfigLine]:
    return [ConfigLine(f"{table}.{key}", value, source) for key, value, source in rows]


def nested(lines: list[ConfigLine]) -> dict[str, Any]:
    """Return the lines as tables in tables, as verl's own file has them."""
    table: dict[str, Any] = {}
    for line in lines:
        *path, last = line.key.split(".")
        inner = table
        for name in path:
            inner = inner.setdefault(name, {})
        inner[last] = line.value
    return table


def most_groups(recipe: Recipe) -> int:
    """Return the most groups that a step can train on."""
    selection, rounds = recipe.selection, recipe.rounds
    if isinstance(selection, OversampleFilterRank | DynamicSampling):
        return selection.groups
    if isinstance(selection, RepoRank):
        return math.ceil(selection.rollouts / recipe.rollout.group_size)
    return rounds.tasks if isinstance(selection, KeepAll) else rounds.tasks * rounds.rounds


def update_groups(recipe: Recipe) -> int:
    """Return groups of an update, as verl divides a step that has most."""
    return math.ceil(most_groups(recipe) / recipe.optimizer.updates)


def _model(settings: RlSettings) -> list[ConfigLine]:
    model = settings.model
    exact = exact_floats(settings)
    dtype = "float32" if exact else "bfloat16"
    attention = "sdpa" if model.attention == "auto" else model.attention
    precision = {"param_dtype": "fp32" if exact else "bf16", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    return _under(
        "actor_rollout_ref",
        ("model.path", located(model.source), "model.source"),
        ("model.override_config.attn_implementation", attention, "model.attention"),
        ("model.enable_gradient_checkpointing", bool(model.gradient_checkpointing), "model.gradient_checkpointing"),
        ("model.use_remove_padding", model.attention == "flash_attention_2", "model.attention"),
        ("actor.freeze_vision_tower", model.vision == "frozen", "model.vision"),
        ("actor.fsdp_config.model_dtype", "fp32", "(trained weights are float32)"),
        ("actor.fsdp_config.dtype", dtype, "model.precision"),
        ("actor.fsdp_config.mixed_precision", precision, "model.precision"),
        ("rollout.dtype", dtype, "model.precision"),
        ("actor.strategy", "fsdp2", "(torch's fully_shard)"),
        ("actor.fsdp_config.strategy", "fsdp2", "(torch's fully_shard)"),
        ("ref.fsdp_config.strategy", "fsdp2", "(torch's fully_shard)"),
        ("ref.strategy", "fsdp2", "(torch's fully_shard)"),
    )


def located(source: str) -> str:
    """Return a checkpoint as every process of verl finds it, whatever folder it runs in."""
    return str(Path(source).resolve()) if Path(source).is_dir() else source


def exact_floats(settings: RlSettings) -> bool:
    """Return whether everything is computed in float32."""
    precision = settings.model.precision
    return precision == "float32" or (precision == "auto" and verl_of(settings).device == "cpu")


def _data(settings: RlSettings, out: Path) -> list[ConfigLine]:
    rows = out / "verl"
    most = settings.recipe.limits.context_tokens
    return _under(
        "data",
        ("train_files", str(rows / "train.parquet"), "tasks.source"),
        ("val_files", str(rows / "validation.parquet"), "validation.source"),
        ("train_batch_size", settings.recipe.rounds.tasks, "recipe.rounds.tasks"),
        ("shuffle", False, "(rows are in our order)"),
        ("seed", settings.recipe.seed, "recipe.seed"),
        ("dataloader_num_workers", 0, "(a row is a name)"),
        ("filter_overlong_prompts", False, "(the context limit ends an episode)"),
        *((f"max_{part}_length", most, "recipe.rollout.limits") for part in ("prompt", "response")),
    )


def _rollout(settings: RlSettings, out: Path) -> list[ConfigLine]:
    recipe, verl, validation = settings.recipe, verl_of(settings), settings.validation
    temperature = recipe.rollout.sampling.temperature
    return [
        *_under(
            "actor_rollout_ref.rollout",
            ("name", "vllm", "(verl's own servers)"),
            ("n", recipe.rollout.group_size, "recipe.rollout.group_size"),
            ("temperature", 1.0 if temperature is None else temperature, "recipe.rollout.sampling.temperature"),
            ("max_model_len", recipe.limits.context_tokens, "recipe.rollout.limits"),
            ("tensor_model_parallel_size", verl.tensor_parallel, "trainer.tensor_parallel"),
            ("calculate_log_probs", True, "(those that sampled are trained against)"),
            ("log_prob_use_dynamic_bsz", True, "max_tokens_per_batch"),
            ("log_prob_max_token_len_per_gpu", pass_tokens(settings), "max_tokens_per_batch"),
            ("agent.num_workers", verl.workers, "trainer.workers"),
            ("agent.default_agent_loop", PART, "(our episodes)"),
            ("agent.agent_loop_config_path", str(out / "verl" / "loop.yaml"), "(our episodes)"),
            ("val_kwargs.n", validation.samples, "validation.samples"),
            ("val_kwargs.temperature", validation.temperature, "validation.temperature"),
            ("val_kwargs.do_sample", validation.temperature > 0, "validation.temperature"),
        ),
        *_under(
            "trainer.v1.sampler",
            ("custom_sampler.path", "pkg://saccade.plugins.verl.sampler", "recipe.selection"),
            ("custom_sampler.name", "SelectingSampler", "recipe.selection"),
            ("sampler_kwargs", {"out": str(out)}, "recipe.selection"),
        ),
        *_under(
            "algorithm",
            ("adv_estimator", PART, "recipe.advantage"),
            ("use_kl_in_reward", False, "recipe.loss.kl_weight"),
            ("rollout_correction.bypass_mode", True, "recipe.loss.old_logprobs"),
        ),
    ]


def pass_tokens(settings: RlSettings) -> int:
    """Return the most tokens of a forward pass: an episode must fit."""
    return max(settings.max_tokens_per_batch, settings.recipe.limits.context_tokens or 0)


def _loss(recipe: Recipe) -> list[ConfigLine]:
    loss = recipe.loss
    lines: list[tuple[str, Any, str]] = [
        ("policy_loss.loss_mode", PART, "(verl's vanilla, watched)"),
        ("clip_ratio_low", loss.clip_low, "recipe.loss.clip_low"),
        ("clip_ratio_high", loss.clip_high, "recipe.loss.clip_high"),
        ("clip_ratio_c", loss.dual_clip or NO_LIMIT, "recipe.loss.dual_clip"),
        ("loss_agg_mode", AGGREGATES[loss.aggregate], "recipe.loss.aggregate"),
        ("loss_scale_factor", loss.scale if loss.aggregate == "sequence-sum" else None, "recipe.loss.scale"),
        ("entropy_coeff", loss.entropy_weight, "recipe.loss.entropy_weight"),
        ("use_kl_loss", loss.kl_weight > 0, "recipe.loss.kl_weight"),
    ]
    if loss.kl_weight:
        lines += [
            ("kl_loss_coef", loss.kl_weight, "recipe.loss.kl_weight"),
            ("kl_loss_type", KL_ESTIMATORS.load(loss.kl).verl, "recipe.loss.kl"),
        ]
    return _under("actor_rollout_ref.actor", *lines)


def _optimizer(settings: RlSettings) -> list[ConfigLine]:
    own = settings.recipe.optimizer
    return _under(
        "actor_rollout_ref",
        ("actor.optim.lr", own.learning_rate, "recipe.optimizer.learning_rate"),
        ("actor.optim.lr_warmup_steps", own.warmup_steps, "recipe.optimizer.warmup_steps"),
        ("actor.optim.lr_scheduler_type", "constant", "recipe.optimizer.warmup_steps"),
        ("actor.optim.weight_decay", own.weight_decay, "recipe.optimizer.weight_decay"),
        ("actor.optim.betas", list(own.betas), "recipe.optimizer.betas"),
        ("actor.optim.clip_grad", own.clip or NO_LIMIT, "recipe.optimizer.clip"),
        ("actor.grad_clip", own.clip or NO_LIMIT, "recipe.optimizer.clip"),
        ("actor.ppo_mini_batch_size", update_groups(settings.recipe), "recipe.optimizer.updates"),
        ("actor.ppo_epochs", own.epochs, "recipe.optimizer.epochs"),
        ("actor.shuffle", own.updates * own.epochs > 1, "recipe.optimizer.updates"),
        ("actor.data_loader_seed", settings.recipe.seed, "recipe.seed"),
        ("actor.use_dynamic_bsz", True, "max_tokens_per_batch"),
        ("actor.ppo_max_token_len_per_gpu", pass_tokens(settings), "max_tokens_per_batch"),
        ("ref.log_prob_use_dynamic_bsz", True, "max_tokens_per_batch"),
        ("ref.log_prob_max_token_len_per_gpu", pass_tokens(settings), "max_tokens_per_batch"),
        ("actor.checkpoint.save_contents", ["model", "optimizer", "extra", "hf_model"], "(the trained model)"),
    )


def _trainer(settings: RlSettings, out: Path) -> list[ConfigLine]:
    keep, verl, validation = settings.keep, verl_of(settings), settings.validation
    loggers = ["console", "file"]
    loggers += ["tensorboard"] if keep.tensorboard else []
    loggers += [] if keep.tracker == "none" else [keep.tracker]
    return _under(
        "trainer",
        ("nnodes", verl.nodes, "trainer.nodes"),
        ("n_gpus_per_node", verl.gpus, "trainer.gpus"),
        ("device", "cpu" if verl.device == "cpu" else "cuda", "trainer.device"),
        ("v1.trainer_mode", "sync", "(rollouts by the newest weights)"),
        ("total_training_steps", settings.recipe.steps, "recipe.steps"),
        ("total_epochs", 1, "(rows are as many as the steps may take)"),
        ("test_freq", validation.every or -1, "validation.every"),
        ("val_before_train", validation.every > 0, "validation.every"),
        ("save_freq", keep.every, "keep.every"),
        ("max_actor_ckpt_to_keep", None if keep.milestones else keep.checkpoints, "keep.checkpoints, keep.milestones"),
        ("default_local_dir", str(out / "checkpoints"), "(the folder of the run)"),
        ("resume_mode", "auto", "(a run that is resumed)"),
        ("logger", loggers, "keep.tensorboard, keep.tracker"),
        ("project_name", keep.project, "keep.project"),
        ("experiment_name", out.name, "(the folder of the run)"),
    )


def _on_cpu(settings: RlSettings) -> list[ConfigLine]:
    """Return the lines that turn off what verl and vLLM cannot do without a GPU."""
    why = "trainer.device"
    vllm = {"compilation_config": {"cudagraph_mode": "NONE"}, "skip_mm_profiling": True}
    return [
        *_under(
            "actor_rollout_ref",
            ("rollout.free_cache_engine", False, why),
            ("rollout.enable_sleep_mode", False, why),
            ("rollout.enforce_eager", True, why),
            ("rollout.max_num_seqs", 16, why),
            ("rollout.max_num_batched_tokens", max(2048, settings.recipe.limits.context_tokens or 0), why),
            ("rollout.engine_kwargs.vllm", vllm, why),
            ("rollout.checkpoint_engine.update_weights_bucket_megabytes", 64, why),
            ("actor.use_torch_compile", False, why),
            ("actor.fsdp_config.use_torch_compile", False, why),
            ("ref.use_torch_compile", False, why),
            ("ref.fsdp_config.use_torch_compile", False, why),
        ),
        ConfigLine("transfer_queue.backend.SimpleStorage.num_data_storage_units", 1, why),
        ConfigLine("transfer_queue.backend.SimpleStorage.total_storage_size", 4000, why),
        ConfigLine("reward.num_workers", 1, why),
    ]


# verl's data set: a row for each task that a step may take, in our order; the task is made where it is played.


ROWS: Final = "train.parquet"
"""In OUT/verl."""


def training_rows(settings: RlSettings, tasks: TaskList) -> list[dict[str, Any]]:
    """Count as many as all steps take if each needs all its rounds; epochs and shares are our own trainer's."""
    recipe = settings.recipe
    most = recipe.steps * recipe.rounds.tasks * recipe.rounds.rounds
    return [_row(tasks.at(place, recipe.seed), place, validation=False) for place in range(most)]


def validation_rows(tasks: TaskList | None) -> list[dict[str, Any]]:
    """Return the held-out tasks. verl wants a row even where nothing is validated: it is never played."""
    names = ("none",) if tasks is None else tasks.ids
    return [_row(name, place, validation=True) for place, name in enumerate(names)]


def write_rows(rows: list[dict[str, Any]], path: Path) -> None:
    """Write parquet. Raises `UnavailableError` without pyarrow."""
    pyarrow, parquet = load_pyarrow()
    parquet.write_table(pyarrow.Table.from_pylist(rows), str(path))


def read_names(path: Path) -> list[str]:
    """Return the tasks of rows that were written, in their order. Raises `UnavailableError` without pyarrow."""
    _, parquet = load_pyarrow()
    return [row["extra_info"]["task"] for row in parquet.read_table(str(path), columns=["extra_info"]).to_pylist()]


def _row(task: str, place: int, *, validation: bool) -> dict[str, Any]:
    return {
        "data_source": "held-out" if validation else "trained-on",
        "agent_name": PART,
        "prompt": [{"role": "user", "content": task}],
        "reward_model": {"style": "rule", "ground_truth": ""},
        "extra_info": {"index": place, "task": task, "validation": validation},
    }


# Settings of `saccade rl` that verl's trainer cannot follow, with what to do instead; and what it does otherwise.


REFUSED: Final[Mapping[str, str]] = {
    "engine": "verl starts vLLM servers itself; leave --engine out",
    "model.revision": "verl takes a folder or a name; download the revision, and name its folder",
    "model.language": "LoRA has not been met on verl; leave it at full",
    "model.lora": "LoRA has not been met on verl; leave it out",
    "model.vision_attention": "verl has one attention for the whole model; leave it out",
    "model.picture_pixels": "verl reads preprocessor_config.json; set its size in a copy of the checkpoint",
    "generation.decoding_batches": "verl's servers batch turns by themselves; leave it out",
    "keep.dtype": "verl writes weights as it trains them; leave it out",
    "retry": "turns go to verl's servers through Ray; set trainer.turn_seconds",
}
"""Setting, with everything below it -> why it must be left as it is, and what to do."""
FAMILIES: Final = ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
"""Those whose image processor is Qwen2-VL's: verl folds the placeholders of no other (`workers/rollout/utils.py`)."""


def check_on_verl(settings: RlSettings) -> None:
    """Refuse what a run on verl would not follow. Raises `SettingsError`: names every such setting."""
    check_verl(verl_of(settings))
    check_sampling(settings.recipe.rollout.sampling)
    usual = RlSettings(recipe=settings.recipe)
    wrong = [f"{name}: {why}" for name, why in REFUSED.items() if _at(settings, name) != _at(usual, name)]
    if settings.model.vision == "projector":
        wrong.append("model.vision: verl trains all of the vision tower or nothing; take frozen or full")
    if settings.recipe.rollout.sampling.temperature == 0:
        wrong.append("recipe.rollout.sampling.temperature: verl divides by it; take one above 0")
    if settings.recipe.limits.context_tokens is None:
        name = load_dialect(settings.recipe.dialect).id
        wrong.append(f"recipe.rollout.limits.context_tokens: verl's servers need it, and {name} sets none")
    loss = settings.recipe.loss
    if loss.kl_weight and not KL_ESTIMATORS.load(loss.kl).verl:
        wrong.append(f"recipe.loss.kl: verl has no estimator {loss.kl}; take {', '.join(KL_ESTIMATORS.names())}")
    if loss.old_logprobs == "recompute":
        wrong.append(
            "recipe.loss.old_logprobs: with others than the sampler's, theirs would not be checked; leave it out"
        )
    if settings.recipe.curriculum is not None and not verl_of(settings).pass_rates:
        wrong.append(
            "recipe.curriculum: verl measures no pass rates; name those of a run without --on verl (of its first step: "
            "--set steps=1) in trainer.pass_rates"
        )
    if why := _undivided(settings):
        wrong.append(f"trainer.gpus: {why}")
    if why := unserved(settings.recipe):
        wrong.append(f"recipe.dialect: {why}")
    wrong += _overriding(settings)
    if wrong:
        raise mistaken(wrong, "--on verl")


def _overriding(settings: RlSettings) -> Iterator[str]:
    """Yield the options that verl does not know, or that would contradict the settings of the run."""
    ours = {line.key: line.source for line in verl_lines(settings, Path()) if not line.source.startswith("(")}
    for option in verl_of(settings).options:
        key, equals, _ = option.lstrip("+").partition("=")
        if not equals:
            yield f"trainer.options: {option!r} is no setting; write a.b=value"
        elif ours.get(key, "trainer.device") != "trainer.device":  # what a CPU needs is a guess that may be mended
            yield f"trainer.options: {key} comes from {ours[key]}; set that"


def _undivided(settings: RlSettings) -> str:
    """Say why verl's processes cannot divide an update, which verl finds out only after a step; empty if they can."""
    groups, size = update_groups(settings.recipe), settings.recipe.rollout.group_size
    ranks = verl_of(settings).gpus * verl_of(settings).nodes
    if groups * size % ranks == 0 or any("sequence_parallel" in option for option in verl_of(settings).options):
        return ""
    return (
        f"an update has {groups * size} rollouts ({groups} group{'s' * (groups > 1)} of {size}), which {ranks} GPUs "
        "cannot divide evenly. Take other --gpus or --nodes, or change rollout.group_size, optimizer.updates or how "
        "many groups are kept"
    )


def check_family(family: str, source: str) -> None:
    """Raises SettingsError for a checkpoint `source` of a `family` whose pictures verl gives to its servers wrongly."""
    if family not in FAMILIES:
        raise SettingsError(
            f"model.source: {source} is of the family {family}. verl 0.9.1 gives its servers the placeholders of a "
            f"picture once alone only for {', '.join(FAMILIES)}; of others they would read another prompt than is "
            "trained on. Train it without --on verl."
        )


def notes(settings: RlSettings) -> list[str]:
    """Return how verl differs from our own trainer for this recipe."""
    recipe, said = settings.recipe, []
    if recipe.loss.aggregate != "token-mean":
        rows = most_groups(recipe) * recipe.rollout.group_size
        said.append(
            f"{recipe.loss.aggregate}: verl divides by the {rows} rollouts that a step may have, ours by those that it "
            "has; a step that keeps fewer makes a smaller update"
        )
    if recipe.optimizer.updates > 1:
        said.append("optimizer.updates: verl fills its updates one after another; the last of a small step has fewer")
    if recipe.optimizer.updates * recipe.optimizer.epochs > 1:
        said.append("max_logprob_diff: is not checked, for after the first update of a step a difference is meant")
    if settings.judge.gpus is not None:
        where = f"{settings.judge.gpus} GPUs of this machine beside verl's" if settings.judge.gpus else "the CPU"
        said.append(f"judge.gpus: the command starts the server that judges on {where}, and ends it")
    if settings.keep.milestones:
        said.append("keep.milestones: verl cannot keep some and the newest; every checkpoint stays (keep.every)")
    said.append("a step that keeps nothing: verl makes an update of advantages 0, ours makes none")
    return said


def _at(settings: RlSettings, name: str) -> Any:
    return reduce(getattr, name.split("."), settings)
