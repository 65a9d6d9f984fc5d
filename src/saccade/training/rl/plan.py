"""Plan what each GPU of a run of reinforcement learning holds while it updates and while it samples."""

from __future__ import annotations

import torch

from saccade.dialects.registry import load_dialect
from saccade.tokens.caches import (
    GIB,
    RaggedCache,
    StateCache,
    cache_argument,
    cache_bytes_per_token,
    layer_masks,
    state_bytes,
)
from saccade.training.memory import MemoryPlan, Phase, PlanItem, TrainingMemory, training_memory, video_note
from saccade.training.memory_passes import PassBytes, PeakBytes, Skeleton, read_config
from saccade.training.rl.engines.settings import LOCAL, VLLM
from saccade.training.rl.server_engine import cache_of_batch, most_context
from saccade.training.rl.settings import RlSettings
from saccade.training.weights import is_low

_ASLEEP = GIB
"""GPU memory that a sleeping server keeps for CUDA. Assumed, not measured."""
_APART = "let servers have GPUs of their own (engine.gpus)"


def plan_memory(settings: RlSettings, processes: int, device: str) -> MemoryPlan:
    """Plan one of `processes` on a `device` such as `cuda`.

    Raises:
        SettingsError: the shape of the checkpoint is not known, or `generation.cache` cannot hold one episode.
    """
    model, low = settings.model, is_low(settings.model, device)
    context = most_context(settings, read_config(model.source).get_text_config().max_position_embeddings)
    tokens = max(settings.max_tokens_per_batch, context)  # a longer episode is a pass of its own
    memory = training_memory(model, tokens, processes, low=low)
    reference = PlanItem("reference policy", 0, "set loss.kl_weight=0, or train adapters (model.language=lora)")
    if settings.recipe.loss.kl_weight and model.language == "full":
        reference = PlanItem(reference.what, memory.state.weights, reference.setting)
    update = memory.update(model.gradient_checkpointing, "max_tokens_per_batch and rollout.limits.context_tokens")
    asleep = PlanItem("sleeping server", _ASLEEP if settings.engine.shared else 0, _APART)
    phases = [Phase(update.name, (*update.items, reference, asleep))]
    if settings.engine.source == LOCAL:
        config, number = memory.skeleton.config, 2 if low else 4
        cache_of_batch(settings, context, cache_bytes_per_token(config, number), state_bytes(config, number))
        phases.append(_sampling(settings, memory, reference, context))
    if settings.engine.shared:
        phases.append(_shared(settings, memory, reference))
    served = settings.engine.gpus if settings.engine.source == VLLM else 0
    notes = [f"{served} more GPUs serve; vLLM takes of them what it is told to (engine.options)."] if served else []
    if load_dialect(settings.recipe.dialect).shows_videos:
        notes.append(video_note(model.source, memory.skeleton.family, context))
    title = f"{model.source}, {processes} processes, forward passes of {tokens} tokens, episodes of up to {context}"
    return MemoryPlan(title, tuple(phases), tuple(notes))


def _shared(settings: RlSettings, memory: TrainingMemory, reference: PlanItem) -> Phase:
    """Return the phase in which a server on the same GPU samples."""
    state = memory.state
    return Phase(
        "sampling",
        (
            PlanItem("weights", state.weights, "divide them over more GPUs (model.shard=true, --processes)"),
            PlanItem("optimizer", state.optimizer, "divide it over more GPUs (model.shard=true, --processes)"),
            PlanItem("server", settings.engine.memory * GIB, "lower engine.memory"),
            reference,
        ),
    )


def _sampling(settings: RlSettings, memory: TrainingMemory, reference: PlanItem, tokens: int) -> Phase:
    """Return the phase in which the engine in this process samples; a prompt may be all pictures or video."""
    state, fewer = memory.state, "lower rollout.limits.context_tokens"
    reading = reading_pass(memory.skeleton, tokens)
    rows = -(-settings.generation.max_concurrency // settings.generation.decoding_batches)
    vocabulary = memory.skeleton.config.get_text_config().vocab_size
    return Phase(
        "sampling",
        (
            PlanItem("weights", state.weights, "use servers (engine.source=vllm, engine.gpus), or more --processes"),
            PlanItem("optimizer", state.optimizer, "divide it over more GPUs (model.shard=true, --processes)"),
            PlanItem("gathered weights", state.gathered_sampling, "use servers (engine.source=vllm, engine.gpus)"),
            PlanItem("keys and values", settings.generation.cache * GIB, "lower generation.cache"),
            PlanItem("pictures and videos", memory.pixels, fewer),
            PlanItem("reading prompts", max(reading.most, memory.vision.held + reading.most), fewer),
            PlanItem("logits of the next tokens", rows * vocabulary * 12, "lower generation.max_concurrency"),
            reference,
        ),
    )


def reading_pass(skeleton: Skeleton, tokens: int) -> PassBytes:
    """Measure reading a prompt of `tokens`, without the keys and values that stay."""
    axes = skeleton.family.rope_axes
    with skeleton.mode, torch.no_grad():
        ids, at = torch.zeros((1, tokens), dtype=torch.int64), torch.arange(tokens)
        cache = StateCache(1) if skeleton.family.attention == "recurrent" else RaggedCache(1)
        with PeakBytes() as counted:
            full = cache.begin([0], [tokens], at.device, torch.bfloat16 if skeleton.low else torch.float32)
            masks = layer_masks(full, at[:1], None, skeleton.family, skeleton.config)
            with skeleton.autocast():
                torch.set_autocast_cache_enabled(False)  # under inference mode, as the engine reads, there is none
                skeleton.model.eval()
                model = skeleton.model.model
                model(
                    input_ids=ids,
                    position_ids=at.repeat(axes, 1, 1) if axes > 1 else at[None],
                    attention_mask=masks,
                    use_cache=True,
                    **{cache_argument(model): cache},
                )
                skeleton.model.train()
            kept = cache.nbytes
    return PassBytes(0, counted.most - kept)
