"""An engine over a checkpoint in this process: the one that is being trained.

Episodes decode turn by turn in batches, keys and values kept from turn to turn as far as the memory for them goes:
what does not fit waits for its turn and is read again. All batches decode in one thread, one after the other; weights
must not change while episodes run. Imports torch; import this module late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from saccade.generate.base import Slot
from saccade.generate.batch_decoder import BatchDecoder
from saccade.generate.sequences import Policy, SequenceBatch, TokenSequence
from saccade.models.base import MediaReader
from saccade.tokens.pictures import PictureTensors


class TransformersEngine:
    """A `base.Engine` that samples from the weights in training, in this process."""

    in_process = True

    def __init__(
        self, policy: Policy, media: MediaReader, *, most_tokens: int = 8192, cache_bytes: float | None = None
    ) -> None:
        """`media` has the pictures; `most_tokens` bounds a forward pass that reads, padding included; `cache_bytes`
        the keys and values of each batch, None for no limit.
        """
        self.name = f"local:{policy.checkpoint.name}"
        self._policy = policy
        self._pictures = PictureTensors(policy.checkpoint, media)
        self._most = most_tokens
        self._cache_bytes = cache_bytes
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self.busy_seconds = 0.0

    def slots(self, seeds: Sequence[int]) -> list[Slot]:
        return list(BatchDecoder(self._policy, self._make_batch, seeds, self._thread, self._add_busy).slots)

    async def update_weights(self, save: Callable[[Path], object]) -> None:
        """Does nothing: the engine samples from the very weights that are trained."""

    async def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=True)

    def _make_batch(self, sequences: Sequence[TokenSequence]) -> SequenceBatch:
        return SequenceBatch(self._policy, self._pictures, sequences, self._most, self._cache_bytes)

    def _add_busy(self, seconds: float) -> None:
        self.busy_seconds += seconds
