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
from typing import Any, Final

from saccade.core.settings import mistaken
from saccade.dialects.registry import load_dialect
from saccade.errors import SettingsError
from saccade.plugins.verl.settings import check_verl, verl_of
from saccade.tasks.benchmarks.row_files import load_pyarrow
from saccade.training.rl.kl import KL_ESTIMATORS
from saccade.training.rl.recipe import Recipe
from saccade.training.rl.rollouts import check_sampling
from saccade.training.rl.select import DynamicSampling, KeepAll, OversampleFilterRank, RepoRank
from saccade.training.rl.settings import RlSettings, unserved
from saccade.training.rl.tasks import TaskList

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
    "recipe.dialect": "episodes",
    "recipe.prompt_file": "episodes",
    "recipe.prompt_names": "episodes",
    "recipe.tools": "episodes",
    "recipe.tool_list": "episodes",
    "recipe.boxes": "episodes",
    "recipe.tool_calls": "episodes",
    "recipe.tool_hints": "episodes",
    "recipe.rollout.sampling": "episodes; the temperature is verl's too",
    "recipe.rollout.limits": "episodes",
    "recipe.media": "episodes",
    "validation.limits": "episodes of held-out tasks",
    "recipe.reward": "rewards, with all judges",
    "recipe.rounds.groups": "the sampler",
    "recipe.rounds.rounds": "the sampler",
    "recipe.selection": "the sampler",
    "recipe.advantage": "the sampler, whose advantages verl's estimator takes as they are",
    "recipe.profile": "applied before",
    "recipe.engine": "moved to engine",
    "recipe.judge": "moved to judge",
    "judge": "the command, which starts the server beside verl's GPUs and ends it",
    "recipe.machine": "moved to model, generation and max_tokens_per_batch",
    "recipe.source": "the data set",
    "recipe.curriculum": "the data set",
    "trainer.name": "the command",
    "trainer.pass_rates": "the data set",
    "tasks.most": "the data set",
    "tasks.most_broken": "in place of a task that cannot be made the next one is played, up to this share",
    "validation.tasks": "the data set",
    "generation.max_concurrency": "episodes, divided among trainer.workers",
    "generation.replays": "episodes",
    "validation.grader": "rewards",
    "rollouts.every": "the sampler",
    "max_logprob_diff": "the loss",
    "session": "episodes",
    "sandbox": "episodes",
    "threads": "workers that play episodes",
    "trainer.turn_seconds": "episodes",
    "trainer.step_seconds": "the command and the sampler",
    "trainer.options": "verl, as they are",
    "generation.cache": "of the engine in our own trainer's process, which a run on verl has not",
    "model.logit_chunk": "of our own scorer; verl computes log-probabilities itself",
    "model.shard": "verl always divides weights, gradients and the optimizer's state",
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
    model, actor = settings.model, "actor_rollout_ref.actor"
    exact = exact_floats(settings)
    dtype = "float32" if exact else "bfloat16"
    attention = "sdpa" if model.attention == "auto" else model.attention
    precision = {"param_dtype": "fp32" if exact else "bf16", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    return [
        ConfigLine("actor_rollout_ref.model.path", located(model.source), "model.source"),
        ConfigLine("actor_rollout_ref.model.override_config.attn_implementation", attention, "model.attention"),
        ConfigLine(
            "actor_rollout_ref.model.enable_gradient_checkpointing",
            bool(model.gradient_checkpointing),
            "model.gradient_checkpointing",
        ),
        ConfigLine(
            "actor_rollout_ref.model.use_remove_padding", model.attention == "flash_attention_2", "model.attention"
        ),
        ConfigLine(f"{actor}.freeze_vision_tower", model.vision == "frozen", "model.vision"),
        ConfigLine(f"{actor}.fsdp_config.model_dtype", "fp32", "(trained weights are float32)"),
        ConfigLine(f"{actor}.fsdp_config.dtype", dtype, "model.precision"),
        ConfigLine(f"{actor}.fsdp_config.mixed_precision", precision, "model.precision"),
        ConfigLine("actor_rollout_ref.rollout.dtype", dtype, "model.precision"),
        ConfigLine(f"{actor}.strategy", "fsdp2", "(torch's fully_shard)"),
        ConfigLine(f"{actor}.fsdp_config.strategy", "fsdp2", "(torch's fully_shard)"),
        ConfigLine("actor_rollout_ref.ref.fsdp_config.strategy", "fsdp2", "(torch's fully_shard)"),
        ConfigLine("actor_rollout_ref.ref.strategy", "fsdp2", "(torch's fully_shard)"),
    ]


def located(source: str) -> str:
    """Return a checkpoint as every process of verl finds it, whatever folder it runs in."""
    return str(Path(source).resolve()) if Path(source).is_dir() else source


def exact_floats(settings: RlSettings) -> bool:
    """Whether everything is computed in float32."""
    precision = settings.model.precision
    return precision == "float32" or (precision == "auto" and verl_of(settings).device == "cpu")


def _data(settings: RlSettings, out: Path) -> list[ConfigLine]:
    rows = out / "verl"
    most = settings.recipe.limits.context_tokens
    lines = [
        ConfigLine("data.train_files", str(rows / "train.parquet"), "tasks.source"),
        ConfigLine("data.val_files", str(rows / "validation.parquet"), "validation.source"),
        ConfigLine("data.train_batch_size", settings.recipe.rounds.tasks, "recipe.rounds.tasks"),
        ConfigLine("data.shuffle", False, "(rows are in our order)"),
        ConfigLine("data.seed", settings.recipe.seed, "recipe.seed"),
        ConfigLine("data.dataloader_num_workers", 0, "(a row is a name)"),
        ConfigLine("data.filter_overlong_prompts", False, "(the context limit ends an episode)"),
    ]
    limit = "recipe.rollout.limits"
    return lines + [ConfigLine(f"data.max_{part}_length", most, limit) for part in ("prompt", "response")]


def _rollout(settings: RlSettings, out: Path) -> list[ConfigLine]:
    recipe, verl, validation = settings.recipe, verl_of(settings), settings.validation
    rollout, samplers = "actor_rollout_ref.rollout", "trainer.v1.sampler"
    temperature = recipe.rollout.sampling.temperature
    return [
        ConfigLine(f"{rollout}.name", "vllm", "(verl's own servers)"),
        ConfigLine(f"{rollout}.n", recipe.rollout.group_size, "recipe.rollout.group_size"),
        ConfigLine(
            f"{rollout}.temperature", 1.0 if temperature is None else temperature, "recipe.rollout.sampling.temperature"
        ),
        ConfigLine(f"{rollout}.max_model_len", recipe.limits.context_tokens, "recipe.rollout.limits"),
        ConfigLine(f"{rollout}.tensor_model_parallel_size", verl.tensor_parallel, "trainer.tensor_parallel"),
        ConfigLine(f"{rollout}.calculate_log_probs", True, "(those that sampled are trained against)"),
        ConfigLine(f"{rollout}.log_prob_use_dynamic_bsz", True, "max_tokens_per_batch"),
        ConfigLine(f"{rollout}.log_prob_max_token_len_per_gpu", pass_tokens(settings), "max_tokens_per_batch"),
        ConfigLine(f"{rollout}.agent.num_workers", verl.workers, "trainer.workers"),
        ConfigLine(f"{rollout}.agent.default_agent_loop", PART, "(our episodes)"),
        ConfigLine(f"{rollout}.agent.agent_loop_config_path", str(out / "verl" / "loop.yaml"), "(our episodes)"),
        ConfigLine(f"{rollout}.val_kwargs.n", validation.samples, "validation.samples"),
        ConfigLine(f"{rollout}.val_kwargs.temperature", validation.temperature, "validation.temperature"),
        ConfigLine(f"{rollout}.val_kwargs.do_sample", validation.temperature > 0, "validation.temperature"),
        ConfigLine(f"{samplers}.custom_sampler.path", "pkg://saccade.plugins.verl.sampler", "recipe.selection"),
        ConfigLine(f"{samplers}.custom_sampler.name", "SelectingSampler", "recipe.selection"),
        ConfigLine(f"{samplers}.sampler_kwargs", {"out": str(out)}, "recipe.selection"),
        ConfigLine("algorithm.adv_estimator", PART, "recipe.advantage"),
        ConfigLine("algorithm.use_kl_in_reward", False, "recipe.loss.kl_weight"),
        ConfigLine("algorithm.rollout_correction.bypass_mode", True, "recipe.loss.old_logprobs"),
    ]


def pass_tokens(settings: RlSettings) -> int:
    """Return the most tokens of a forward pass: an episode must fit."""
    return max(settings.max_tokens_per_batch, settings.recipe.limits.context_tokens or 0)


def _loss(recipe: Recipe) -> list[ConfigLine]:
    loss, actor = recipe.loss, "actor_rollout_ref.actor"
    lines = [
        ConfigLine(f"{actor}.policy_loss.loss_mode", PART, "(verl's vanilla, watched)"),
        ConfigLine(f"{actor}.clip_ratio_low", loss.clip_low, "recipe.loss.clip_low"),
        ConfigLine(f"{actor}.clip_ratio_high", loss.clip_high, "recipe.loss.clip_high"),
        ConfigLine(f"{actor}.clip_ratio_c", loss.dual_clip or NO_LIMIT, "recipe.loss.dual_clip"),
        ConfigLine(f"{actor}.loss_agg_mode", AGGREGATES[loss.aggregate], "recipe.loss.aggregate"),
        ConfigLine(
            f"{actor}.loss_scale_factor",
            loss.scale if loss.aggregate == "sequence-sum" else None,
            "recipe.loss.scale",
        ),
        ConfigLine(f"{actor}.entropy_coeff", loss.entropy_weight, "recipe.loss.entropy_weight"),
        ConfigLine(f"{actor}.use_kl_loss", loss.kl_weight > 0, "recipe.loss.kl_weight"),
    ]
    if loss.kl_weight:
        lines += [
            ConfigLine(f"{actor}.kl_loss_coef", loss.kl_weight, "recipe.loss.kl_weight"),
            ConfigLine(f"{actor}.kl_loss_type", KL_ESTIMATORS.load(loss.kl).verl, "recipe.loss.kl"),
        ]
    return lines


def _optimizer(settings: RlSettings) -> list[ConfigLine]:
    own, actor, reference = settings.recipe.optimizer, "actor_rollout_ref.actor", "actor_rollout_ref.ref"
    return [
        ConfigLine(f"{actor}.optim.lr", own.learning_rate, "recipe.optimizer.learning_rate"),
        ConfigLine(f"{actor}.optim.lr_warmup_steps", own.warmup_steps, "recipe.optimizer.warmup_steps"),
        ConfigLine(f"{actor}.optim.lr_scheduler_type", "constant", "recipe.optimizer.warmup_steps"),
        ConfigLine(f"{actor}.optim.weight_decay", own.weight_decay, "recipe.optimizer.weight_decay"),
        ConfigLine(f"{actor}.optim.betas", list(own.betas), "recipe.optimizer.betas"),
        ConfigLine(f"{actor}.optim.clip_grad", own.clip or NO_LIMIT, "recipe.optimizer.clip"),
        ConfigLine(f"{actor}.grad_clip", own.clip or NO_LIMIT, "recipe.optimizer.clip"),
        ConfigLine(
            f"{actor}.ppo_mini_batch_size",
            update_groups(settings.recipe),
            "recipe.optimizer.updates",
        ),
        ConfigLine(f"{actor}.ppo_epochs", own.epochs, "recipe.optimizer.epochs"),
        ConfigLine(f"{actor}.shuffle", own.updates * own.epochs > 1, "recipe.optimizer.updates"),
        ConfigLine(f"{actor}.data_loader_seed", settings.recipe.seed, "recipe.seed"),
        ConfigLine(f"{actor}.use_dynamic_bsz", True, "max_tokens_per_batch"),
        ConfigLine(f"{actor}.ppo_max_token_len_per_gpu", pass_tokens(settings), "max_tokens_per_batch"),
        ConfigLine(f"{reference}.log_prob_use_dynamic_bsz", True, "max_tokens_per_batch"),
        ConfigLine(f"{reference}.log_prob_max_token_len_per_gpu", pass_tokens(settings), "max_tokens_per_batch"),
        ConfigLine(
            f"{actor}.checkpoint.save_contents", ["model", "optimizer", "extra", "hf_model"], "(the trained model)"
        ),
    ]


def _trainer(settings: RlSettings, out: Path) -> list[ConfigLine]:
    keep, verl, validation = settings.keep, verl_of(settings), settings.validation
    loggers = ["console", "file"]
    loggers += ["tensorboard"] if keep.tensorboard else []
    loggers += [] if keep.tracker == "none" else [keep.tracker]
    return [
        ConfigLine("trainer.nnodes", verl.nodes, "trainer.nodes"),
        ConfigLine("trainer.n_gpus_per_node", verl.gpus, "trainer.gpus"),
        ConfigLine("trainer.device", "cpu" if verl.device == "cpu" else "cuda", "trainer.device"),
        ConfigLine("trainer.v1.trainer_mode", "sync", "(rollouts by the newest weights)"),
        ConfigLine("trainer.total_training_steps", settings.recipe.steps, "recipe.steps"),
        ConfigLine("trainer.total_epochs", 1, "(rows are as many as the steps may take)"),
        ConfigLine("trainer.test_freq", validation.every or -1, "validation.every"),
        ConfigLine("trainer.val_before_train", validation.every > 0, "validation.every"),
        ConfigLine("trainer.save_freq", keep.every, "keep.every"),
        ConfigLine(
            "trainer.max_actor_ckpt_to_keep",
            None if keep.milestones else keep.checkpoints,
            "keep.checkpoints, keep.milestones",
        ),
        ConfigLine("trainer.default_local_dir", str(out / "checkpoints"), "(the folder of the run)"),
        ConfigLine("trainer.resume_mode", "auto", "(a run that is resumed)"),
        ConfigLine("trainer.logger", loggers, "keep.tensorboard, keep.tracker"),
        ConfigLine("trainer.project_name", keep.project, "keep.project"),
        ConfigLine("trainer.experiment_name", out.name, "(the folder of the run)"),
    ]


def _on_cpu(settings: RlSettings) -> list[ConfigLine]:
    """Return the lines that turn off what verl and vLLM cannot do without a GPU."""
    why, rollout, actor = "trainer.device", "actor_rollout_ref.rollout", "actor_rollout_ref.actor"
    vllm = {"compilation_config": {"cudagraph_mode": "NONE"}, "skip_mm_profiling": True}
    return [
        ConfigLine(f"{rollout}.free_cache_engine", False, why),
        ConfigLine(f"{rollout}.enable_sleep_mode", False, why),
        ConfigLine(f"{rollout}.enforce_eager", True, why),
        ConfigLine(f"{rollout}.max_num_seqs", 16, why),
        ConfigLine(f"{rollout}.max_num_batched_tokens", max(2048, settings.recipe.limits.context_tokens or 0), why),
        ConfigLine(f"{rollout}.engine_kwargs.vllm", vllm, why),
        ConfigLine(f"{rollout}.checkpoint_engine.update_weights_bucket_megabytes", 64, why),
        ConfigLine(f"{actor}.use_torch_compile", False, why),
        ConfigLine(f"{actor}.fsdp_config.use_torch_compile", False, why),
        ConfigLine("actor_rollout_ref.ref.use_torch_compile", False, why),
        ConfigLine("actor_rollout_ref.ref.fsdp_config.use_torch_compile", False, why),
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
    """Refuse what a run on verl would not follow.

    Raises:
        SettingsError: names every such setting.
    """
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
