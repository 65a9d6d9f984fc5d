"""A slot of an engine as the model of one episode, so that rollouts are played by the same loop as everything else."""

from __future__ import annotations

from collections.abc import Callable

from saccade.errors import ContextLimitError, SettingsError
from saccade.generate.base import ContextFullError, Slot, TurnRequest
from saccade.models.base import Completion, MediaReader, Request, Usage
from saccade.record.trajectory import Sampling
from saccade.tokens.stream import TokenStream


class SlotModel:
    """A `Model` for one episode: tells the slot what is new, and keeps what was sampled."""

    def __init__(self, name: str, slot: Slot, stream: TokenStream) -> None:
        """`name` is the engine's."""
        self.name = name
        self._slot = slot
        self._stream = stream
        self._visual = 0
        """Tokens of pictures and videos that were read."""

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The next turn; `on_text` hears it whole.

        Raises:
            ContextLimitError: what is to be read leaves no room.
            SettingsError: the sampling cuts the distribution, and no loss could say how likely a token was.
            TrainingError: a message has no token form.
        """
        check_sampling(request.sampling)
        delta = self._stream.prompt_delta(request.messages)
        self._visual += sum(picture.tokens for picture in delta.pictures)
        turn_request = TurnRequest(
            delta,
            request.stop,
            1.0 if request.sampling.temperature is None else request.sampling.temperature,
            request.max_tokens,
            request.context_tokens,
        )
        try:
            turn = await self._slot.generate(turn_request)
        except ContextFullError as error:
            raise ContextLimitError(str(error)) from error
        self._stream.add_sampled(turn.ids, turn.text)
        if on_text is not None:
            on_text(turn.text)
        return Completion(
            text=turn.text,
            finish=turn.finish,
            token_ids=turn.ids,
            logprobs=turn.logprobs,
            usage=Usage(prompt_tokens=turn.context, sampled_tokens=len(turn.ids), visual_tokens=self._visual),
            model=self.name,
        )

    async def close(self) -> None:
        """Leave the slot."""
        self._slot.release()


def check_sampling(sampling: Sampling) -> None:
    """Raises `SettingsError` for rollouts that would not be drawn from the policy itself."""
    if sampling.top_k or (sampling.top_p is not None and sampling.top_p < 1.0):
        raise SettingsError(
            "rollouts are drawn from the whole distribution: top_k and top_p would cut it, and the loss could not know "
            "how likely a token was. Leave both out of rollout.sampling."
        )
