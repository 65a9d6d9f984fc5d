"""How long an episode of a run may be, and what a batch of such episodes keeps while it decodes in this process."""

from __future__ import annotations

from saccade.dialects.registry import load_dialect
from saccade.episode.plan import limits_with
from saccade.errors import SettingsError
from saccade.generate.ragged_cache import row_bytes
from saccade.models.kv_cache import GIB
from saccade.record.trajectory import EpisodeLimits
from saccade.rl.train.settings import RlSettings


def most_context(settings: RlSettings, checkpoint: int) -> int:
    """Most tokens of an episode: what the recipe, else the dialect says, and never more than the checkpoint reads."""
    dialect = load_dialect(settings.recipe.dialect)
    own = settings.recipe.rollout.limits or EpisodeLimits()
    most = limits_with(dialect.limits, **own.model_dump()).context_tokens
    return checkpoint if most is None else min(most, checkpoint)


def cache_of_batch(settings: RlSettings, longest: int, bytes_per_token: int, state: int = 0) -> float:
    """Bytes of what each batch that decodes in this process keeps, with episodes of up to `longest` tokens.

    `state` is what an episode takes beside keys and values, in bytes.

    Raises:
        SettingsError: the longest episode does not fit them.
    """
    batches = settings.generation.decoding_batches
    budget = settings.generation.cache * GIB / batches
    needed = row_bytes(longest, bytes_per_token) + state * -(-settings.generation.max_concurrency // batches)
    if needed > budget:
        raise SettingsError(
            f"generation.cache = {settings.generation.cache:g} GiB cannot hold an episode of {longest} tokens in each "
            f"of {batches} batches (generation.decoding_batches): it takes {needed / GIB:.3g} GiB. Set "
            f"generation.cache to at least {needed * batches / GIB:.3g}, or bound rollout.limits.context_tokens."
        )
    return budget
