"""verl's configuration from the settings of `saccade rl`: every setting of ours is mapped, kept by ours, or refused.

    lines = verl_lines(settings, Path("runs/rl"))      # what `--plan` prints

Names and meanings are those of verl 0.9.1 (its `ppo_trainer.yaml`). Needs neither verl nor torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from saccade.dialects.registry import load_dialect
from saccade.episode.plan import limits_with
from saccade.record.trajectory import EpisodeLimits
from saccade.rl.losses.kl import KL_ESTIMATORS
from saccade.rl.recipe import Recipe
from saccade.rl.select.oversample import OversampleFilterRank, RepoRank
from saccade.rl.select.plain import DynamicSampling, KeepAll
from saccade.rl.train.settings import RlSettings
from saccade.rl.verl.settings import verl_of

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
    "recipe.tool_calls": "episodes",
    "recipe.tool_hints": "episodes",
    "recipe.rollout.sampling": "episodes; the temperature is verl's too",
    "recipe.rollout.limits": "episodes",
    "recipe.reward": "rewards, with all judges",
    "recipe.rounds.groups": "the sampler",
    "recipe.rounds.rounds": "the sampler",
    "recipe.selection": "the sampler",
    "recipe.advantage": "the sampler, whose advantages verl's estimator takes as they are",
    "recipe.profile": "applied before",
    "recipe.engine": "moved to engine",
    "recipe.machine": "moved to model, generation and max_tokens_per_batch",
    "recipe.source": "the data set",
    "recipe.curriculum": "the data set",
    "trainer.name": "the command",
    "trainer.pass_rates": "the data set",
    "tasks.most": "the data set",
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
    """Every setting that is given to verl, for a run in the folder `out`."""
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
    """The lines as tables in tables, as verl's own file has them."""
    table: dict[str, Any] = {}
    for line in lines:
        *path, last = line.key.split(".")
        inner = table
        for name in path:
            inner = inner.setdefault(name, {})
        inner[last] = line.value
    return table


def context_tokens(recipe: Recipe) -> int | None:
    """Most tokens of an episode; None where neither the recipe nor its dialect says."""
    dialect = load_dialect(recipe.dialect)
    given = recipe.rollout.limits or EpisodeLimits()
    return limits_with(dialect.limits, **given.model_dump()).context_tokens


def most_groups(recipe: Recipe) -> int:
    """Most groups that a step can train on."""
    selection, rounds = recipe.selection, recipe.rounds
    if isinstance(selection, OversampleFilterRank | DynamicSampling):
        return selection.groups
    if isinstance(selection, RepoRank):
        return math.ceil(selection.rollouts / recipe.rollout.group_size)
    return rounds.tasks if isinstance(selection, KeepAll) else rounds.tasks * rounds.rounds


def update_groups(recipe: Recipe) -> int:
    """Groups of an update, as verl divides a step that has most."""
    return math.ceil(most_groups(recipe) / recipe.optimizer.updates)


def _model(settings: RlSettings) -> list[ConfigLine]:
    model, actor = settings.model, "actor_rollout_ref.actor"
    exact = exact_floats(settings)
    dtype = "float32" if exact else "bfloat16"
    precision = {"param_dtype": "fp32" if exact else "bf16", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    return [
        ConfigLine("actor_rollout_ref.model.path", located(model.source), "model.source"),
        ConfigLine("actor_rollout_ref.model.override_config.attn_implementation", model.attention, "model.attention"),
        ConfigLine(
            "actor_rollout_ref.model.enable_gradient_checkpointing",
            model.gradient_checkpointing,
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
    """A checkpoint as every process of verl finds it, whatever folder it runs in."""
    return str(Path(source).resolve()) if Path(source).is_dir() else source


def exact_floats(settings: RlSettings) -> bool:
    """Whether everything is computed in float32."""
    precision = settings.model.precision
    return precision == "float32" or (precision == "auto" and verl_of(settings).device == "cpu")


def _data(settings: RlSettings, out: Path) -> list[ConfigLine]:
    rows = out / "verl"
    most = context_tokens(settings.recipe)
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
        ConfigLine(f"{rollout}.max_model_len", context_tokens(recipe), "recipe.rollout.limits"),
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
        ConfigLine(f"{samplers}.custom_sampler.path", "pkg://saccade.rl.verl.sampler", "recipe.selection"),
        ConfigLine(f"{samplers}.custom_sampler.name", "SelectingSampler", "recipe.selection"),
        ConfigLine(f"{samplers}.sampler_kwargs", {"out": str(out)}, "recipe.selection"),
        ConfigLine("algorithm.adv_estimator", PART, "recipe.advantage"),
        ConfigLine("algorithm.use_kl_in_reward", False, "recipe.loss.kl_weight"),
        ConfigLine("algorithm.rollout_correction.bypass_mode", True, "(ratios are against what sampled, as ours)"),
    ]


def pass_tokens(settings: RlSettings) -> int:
    """Most tokens of a forward pass: an episode must fit."""
    return max(settings.max_tokens_per_batch, context_tokens(settings.recipe) or 0)


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
        ConfigLine("trainer.max_actor_ckpt_to_keep", keep.checkpoints, "keep.checkpoints"),
        ConfigLine("trainer.default_local_dir", str(out / "checkpoints"), "(the folder of the run)"),
        ConfigLine("trainer.resume_mode", "auto", "(a run that is resumed)"),
        ConfigLine("trainer.logger", loggers, "keep.tensorboard, keep.tracker"),
        ConfigLine("trainer.project_name", keep.project, "keep.project"),
        ConfigLine("trainer.experiment_name", out.name, "(the folder of the run)"),
    ]


def _on_cpu(settings: RlSettings) -> list[ConfigLine]:
    """What verl and vLLM cannot do without a GPU, off."""
    why, rollout, actor = "trainer.device", "actor_rollout_ref.rollout", "actor_rollout_ref.actor"
    vllm = {"compilation_config": {"cudagraph_mode": "NONE"}, "skip_mm_profiling": True}
    return [
        ConfigLine(f"{rollout}.free_cache_engine", False, why),
        ConfigLine(f"{rollout}.enable_sleep_mode", False, why),
        ConfigLine(f"{rollout}.enforce_eager", True, why),
        ConfigLine(f"{rollout}.max_num_seqs", 16, why),
        ConfigLine(f"{rollout}.max_num_batched_tokens", max(2048, context_tokens(settings.recipe) or 0), why),
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
