"""A seat of an engine as the model of one episode, so that rollouts are played by the same loop as everything else."""

from __future__ import annotations

from collections.abc import Callable

from saccade.errors import SettingsError
from saccade.models.base import Completion, MediaReader, Request, Usage
from saccade.record.trajectory import Sampling
from saccade.rl.engines.base import Question, Seat
from saccade.tokens.stream import TokenStream


class SeatModel:
    """A `Model` for one episode: tells the seat what is new, and keeps what was sampled."""

    def __init__(self, name: str, seat: Seat, stream: TokenStream) -> None:
        """`name` is the engine's."""
        self.name = name
        self._seat = seat
        self._stream = stream

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The next turn; `on_text` hears it whole.

        Raises:
            ContextFullError: what is to be read leaves no room.
            SettingsError: the sampling cuts the distribution, and no loss could say how likely a token was.
            TrainingError: a message has no token form.
        """
        check_sampling(request.sampling)
        question = Question(
            self._stream.read(request.messages),
            request.stop,
            1.0 if request.sampling.temperature is None else request.sampling.temperature,
            request.max_tokens,
            request.context_tokens,
        )
        said = await self._seat.ask(question)
        self._stream.wrote(said.ids, said.text)
        if on_text is not None:
            on_text(said.text)
        return Completion(
            text=said.text,
            finish=said.finish,
            token_ids=said.ids,
            logprobs=said.logprobs,
            usage=Usage(prompt_tokens=said.context, sampled_tokens=len(said.ids)),
            model=self.name,
        )

    async def close(self) -> None:
        """Leave the seat."""
        self._seat.leave()


def check_sampling(sampling: Sampling) -> None:
    """Raises `SettingsError` for rollouts that would not be drawn from the policy itself."""
    if sampling.top_k or (sampling.top_p is not None and sampling.top_p < 1.0):
        raise SettingsError(
            "rollouts are drawn from the whole distribution: top_k and top_p would cut it, and the loss could not know "
            "how likely a token was. Leave both out of rollout.sampling."
        )
