"""One turn: what the model wrote, what it was understood to ask for, what came back, and what that cost."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import FiniteFloat, NonNegativeFloat, NonNegativeInt, model_validator

from saccade.record.action import Action, Code, ToolCall
from saccade.record.base import Record, Text
from saccade.record.content import Message, TextPart
from saccade.record.execution import Execution
from saccade.record.hosted_call import HostedCall


class FinishReason(StrEnum):
    """Why the model stopped writing."""

    STOP = "stop"
    """End-of-turn token."""
    STOP_STRING = "stop_string"
    LENGTH = "length"
    """The token limit of the turn or of the context."""
    TOOL_CALL = "tool_call"
    """The API ended the message with a function call."""
    FILTERED = "filtered"
    """The provider withheld the text."""


class TokenCounts(Record):
    """Tokens of a turn; None where the backend does not say."""

    context: NonNegativeInt | None = None
    """Tokens that the model read before it wrote, text and visual."""
    context_visual: NonNegativeInt | None = None
    """The visual ones among `context`."""
    context_cached: NonNegativeInt | None = None
    """Those of `context` that came from a cache of the provider."""
    sampled: NonNegativeInt | None = None
    """Tokens that the model wrote."""
    observation_text: NonNegativeInt | None = None
    observation_visual: NonNegativeInt | None = None


class Turn(Record):
    """One turn of a trajectory."""

    text: Text
    """Exactly what the model wrote."""
    calls: tuple[ToolCall, ...] = ()
    """The calls that an API's own function calling gave beside the text, in order; the first is the action."""
    token_ids: tuple[NonNegativeInt, ...] | None = None
    """The ids that were sampled, never re-tokenised; None if the backend does not give them."""
    logprobs: tuple[FiniteFloat, ...] | None = None
    """Natural log-probability of each of `token_ids` under the policy that sampled it."""
    action: Action
    call_shape: Text = ""
    """How a typed call was written, as `saccade.dialects.calls` names the shape; empty for any other action."""
    execution: Execution | None = None
    """None if nothing was run: the action is an answer or a parse error, or a limit came first."""
    hosted: tuple[HostedCall, ...] = ()
    """What the provider's own sandbox ran while the model wrote `text`, for a dialect that asks for that."""
    observation: Message | None = None
    """What was shown to the model afterwards, as it was shown; None if nothing was."""
    request: Message | None = None
    """A last request for the answer that followed, because a limit was reached."""
    tokens: TokenCounts = TokenCounts()
    dollars: NonNegativeFloat | None = None
    """Price of the model's call; None where it is not known."""
    finish_reason: FinishReason | None = None
    model_seconds: NonNegativeFloat = 0.0
    """Waiting for the model."""
    execution_seconds: NonNegativeFloat = 0.0
    """Waiting for the sandbox or the tool."""

    @property
    def message(self) -> Message:
        """What the model wrote, as it goes back to it: its call only where the observation answers it."""
        answered = self.observation is not None and self.observation.role == "tool"
        parts = (TextPart(text=self.text),) if self.text else ()
        return Message(role="assistant", parts=parts, calls=self.calls[:1] if answered else ())

    @property
    def executions(self) -> tuple[Execution, ...]:
        """All that was run in this turn: by the provider's sandbox while it was written, and then by ours."""
        own = () if self.execution is None else (self.execution,)
        return (*(call.execution for call in self.hosted), *own)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.logprobs is not None and len(self.logprobs) != len(self.token_ids or ()):
            raise ValueError(
                f"{len(self.logprobs)} log-probabilities for {len(self.token_ids or ())} token ids; one each is needed"
            )
        if self.execution is not None and not isinstance(self.action, Code | ToolCall):
            raise ValueError(f"an action of kind {self.action.kind!r} cannot have an execution")
        return self
