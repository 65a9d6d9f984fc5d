"""verl's servers as an engine: ids and pictures go through its client, ids and log-probabilities come back.

The client is verl 0.9.1's `LLMServerClient`: placeholders are given expanded, sampling parameters are vLLM's. Ids that
may not be sampled get a bias of -1e9. Every request has a limit of time; one that is over it, breaks off or fails is an
outage, so that its episode is played again. Log-probabilities are those of the distribution that is sampled, as verl
sets its servers (`processed_logprobs`). Imports torch; import this module late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from PIL import Image

from saccade.errors import ModelLostError, ModelRefusedError
from saccade.generate.base import ContextFullError, SampledTurn, Slot, TurnRequest
from saccade.generate.turn import TurnState, start_turn
from saccade.models.base import MediaReader
from saccade.models.pictures import decoded_picture
from saccade.record.content import ImagePart
from saccade.rl.engines.busy import BusyClock
from saccade.rl.verl.policy import TokenPolicy
from saccade.tokens.segments import PromptPicture, image_parts

_BANNED = -1e9
_KEPT_PICTURES = 64
_ABORTED = "aborted"


class VerlClient(Protocol):
    """As much of verl's `LLMServerClient` as is used."""

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: list[Any] | None = None,
    ) -> Any:
        """A `TokenOutput`: `token_ids`, `log_probs`, `stop_reason`, `extra_fields`."""


class VerlEngine:
    """A `base.Engine` over verl's client; one for each group of rollouts, of which it keeps the versions of weights."""

    name = "verl"
    in_process = False

    def __init__(self, client: VerlClient, policy: TokenPolicy, media: MediaReader, most: int, seconds: float) -> None:
        """`most` tokens of a sequence are served; a turn may take `seconds`."""
        self.client = client
        self.policy = policy
        self.most = most
        self.seconds = seconds
        self.bias = dict.fromkeys(policy.forbidden, _BANNED)
        self.versions: list[int] = []
        """Steps of the weights that sampled; empty before the first turn."""
        self.busy = BusyClock()
        self._media = media
        self._image = lru_cache(_KEPT_PICTURES)(self._prepared)

    @property
    def busy_seconds(self) -> float:
        """Seconds in which at least one turn was at a server."""
        return self.busy.seconds

    def slots(self, seeds: Sequence[int]) -> list[Slot]:
        """Slots that know nothing of each other; the servers batch their turns."""
        return [VerlSlot(self, seed) for seed in seeds]

    def image(self, part: ImagePart) -> Image.Image:
        """A picture at the size that the policy sees. Raises MediaError for one that cannot be read."""
        return self._image(part)

    async def update_weights(self, save: Callable[[Path], object]) -> None:
        """Nothing: verl gives its servers new weights."""

    async def close(self) -> None:
        """Nothing: the servers are verl's."""

    def _prepared(self, part: ImagePart) -> Image.Image:
        encoder = self.policy.encoder
        return encoder.family.prepared(decoded_picture(part, self._media), encoder.image_processor)


class VerlSlot:
    """A `base.Slot` that sends its whole context with every turn; the same server gets all of them."""

    def __init__(self, engine: VerlEngine, seed: int) -> None:
        self._engine = engine
        self._seed = seed
        self._turns = 0
        self._request = uuid4().hex
        self._pictures: tuple[PromptPicture, ...] = ()
        self.ids: tuple[int, ...] = ()

    async def generate(self, request: TurnRequest) -> SampledTurn:
        engine, delta = self._engine, request.delta
        read = (*self.ids[: len(self.ids) - delta.dropped], *delta.ids)
        pictures = (*self._pictures, *delta.pictures)
        turn = start_turn(engine.policy, request, len(read), engine.most)
        parts = image_parts(pictures, engine.name)
        images = await asyncio.to_thread(lambda: [engine.image(part) for part in parts])
        output = await self._asked(read, images, self._sampling(request, turn))
        self._check(output)
        for token, logprob in zip(output.token_ids, output.log_probs, strict=True):
            turn.take(token, logprob)
            if turn.finish is not None:
                break
        if not turn.ids:
            raise ContextFullError(f"verl's server has no room for a token after {len(read)}")
        done = turn.done()
        self.ids, self._pictures, self._turns = (*read, *done.ids), pictures, self._turns + 1
        return done

    def release(self) -> None:
        """The servers hold nothing for a slot."""

    def _sampling(self, request: TurnRequest, turn: TurnState) -> dict[str, Any]:
        digest = sha256(f"{self._seed}:{self._turns}".encode()).digest()
        given: dict[str, Any] = {
            "temperature": request.temperature,
            "top_p": 1.0,
            "top_k": -1,
            "repetition_penalty": 1.0,
            "logprobs": True,
            "max_tokens": turn.left,
            "stop_token_ids": sorted(turn.ends),
            "logit_bias": self._engine.bias,
            "seed": int.from_bytes(digest[:6]),
        }
        # A stop string ends a turn here, on ids; the server only must not drop it.
        return given | ({"stop": list(request.stop), "include_stop_str_in_output": True} if request.stop else {})

    async def _asked(self, read: tuple[int, ...], images: list[Image.Image], sampling: dict[str, Any]) -> Any:
        engine = self._engine
        try:
            with engine.busy.running():
                async with asyncio.timeout(engine.seconds):
                    return await engine.client.generate(
                        self._request, prompt_ids=list(read), sampling_params=sampling, image_data=images or None
                    )
        except TimeoutError as error:
            raise ModelLostError(
                f"a turn took longer than {engine.seconds:g} s at verl's servers (trainer.turn_seconds)"
            ) from error
        except Exception as error:  # Ray gives whatever the server raised, or that its process is gone
            raise ModelLostError(f"a turn failed at verl's servers: {type(error).__name__}: {error}") from error

    def _check(self, output: Any) -> None:
        """Raises ModelError for an answer that cannot be trained on."""
        engine = self._engine
        if output.stop_reason == _ABORTED:
            raise ModelLostError("verl's server broke a turn off.")
        if output.log_probs is None or len(output.log_probs) != len(output.token_ids):
            raise ModelRefusedError("verl's server gave tokens without a log-probability for each.")
        if banned := [token for token in output.token_ids if token in engine.bias]:
            raise ModelRefusedError(f"verl's server sampled id {banned[0]} in spite of its bias.")
        for name in ("min_global_steps", "max_global_steps"):
            if (version := output.extra_fields.get(name)) is not None:
                engine.versions.append(int(version))
