"""What each GPU of a supervised run will hold, before anything is loaded."""

from __future__ import annotations

from saccade.sft.train.settings import SftSettings
from saccade.training.memory.plan import MemoryPlan, training_memory
from saccade.training.memory.shapes import read_config
from saccade.training.weights import is_low


def plan_memory(settings: SftSettings, processes: int, device: str) -> MemoryPlan:
    """The plan for one of `processes` on a `device` such as `cuda`.

    Raises:
        SettingsError: the shape of the checkpoint is not known.
    """
    model = settings.model
    context = read_config(model.source).get_text_config().max_position_embeddings
    tokens = max(settings.batch.tokens, min(settings.data.most_tokens, context))  # a longer row is a pass of its own
    memory = training_memory(
        model,
        tokens,
        processes,
        low=is_low(model, device),
        muon=settings.optimizer.method == "muon",
    )
    title = f"{model.source}, {processes} processes, forward passes of {tokens} tokens"
    return MemoryPlan(title, (memory.update(model.gradient_checkpointing, "batch.tokens and data.most_tokens"),))
