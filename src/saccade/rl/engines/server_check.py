"""What a server is, and whether its log-probabilities are those of what it samples."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel, ValidationError

from saccade.core.retry import RetryPolicy
from saccade.errors import ModelRefusedError
from saccade.generate.sequences import Policy
from saccade.rl.engines.server_http import Connection
from saccade.rl.engines.wire import SampleOutput, SampleRequest, Wire
from saccade.rl.engines.wire_sglang import SglangWire
from saccade.rl.engines.wire_vllm import VllmWire
from saccade.tokens.encoder import Encoder

_HEAT = 2.0
_FIRST, _SECOND = 500.0, 400.0
"""Bias of two tokens. So far above all others, the first has a log-probability of 0 wherever bias counts, and the
second is behind it by about their difference, divided by the temperature where that counts."""
_NEAR = 36.0
"""Most by which the model itself may prefer one of the two tokens, divided by the temperature."""


class EncodedPolicy(Policy, Protocol):
    """A policy whose tokens are made here: a checkpoint made ready for training is one."""

    @property
    def encoder(self) -> Encoder:
        """Its tokens."""


@dataclass(frozen=True, slots=True)
class CheckedServer:
    """A server that was checked."""

    wire: Wire
    context: int | None
    """Most tokens of a sequence there; None where it does not tell."""


class _Card(BaseModel):
    id: str
    owned_by: str = ""
    max_model_len: int | None = None


class _Cards(BaseModel):
    data: list[_Card]


async def check_reached(addresses: Sequence[str], retry: RetryPolicy) -> None:
    """Whether a server answers at each of `addresses`, before a run begins that could not sample.

    Raises:
        ModelLostError: one does not, after all tries.
        ModelRefusedError: what is there has not the way of a server that samples.
    """
    connections = [Connection(address, retry=retry) for address in addresses]
    try:
        await asyncio.gather(*(connection.get("/v1/models") for connection in connections))
    finally:
        await asyncio.gather(*(connection.close() for connection in connections))


async def check_server(connection: Connection, policy: EncodedPolicy) -> CheckedServer:
    """What answers at `connection`.

    Raises:
        ModelLostError: it cannot be reached.
        ModelRefusedError: it is neither vLLM nor SGLang, or its log-probabilities are of no use.
    """
    answer = await connection.get("/v1/models")
    try:
        card = _Cards.model_validate(answer).data[0]
    except (ValidationError, IndexError) as error:
        raise ModelRefusedError(f"{connection.address}/v1/models names no model. Is that vLLM or SGLang?") from error
    wires: dict[str, Wire] = {"vllm": VllmWire(card.id), "sglang": SglangWire()}
    if card.owned_by not in wires:
        raise ModelRefusedError(
            f"{connection.address} is a server of {card.owned_by or 'an unknown kind'}; rollouts can be sampled by "
            f"{' or '.join(wires)}, which take token ids and give them."
        )
    wire = wires[card.owned_by]
    ids = policy.encoder.text("0 1")
    first, second = ids[0], ids[-1]
    request = SampleRequest(ids, 1, {first: _FIRST, second: _SECOND}, temperature=_HEAT, ranked=2)
    output = await connection.ask(wire.path, wire.body(request), wire.read)
    if fault := _fault(output, first):
        raise ModelRefusedError(f"{connection.address} {fault}")
    return CheckedServer(wire, card.max_model_len)


def _fault(output: SampleOutput, first: int) -> str:
    """What is wrong with one token that was sampled under a bias; empty for nothing."""
    if output.ids != (first,):
        return "does not heed logit_bias, so ids that must not be sampled could be. Speculative decoding does that."
    if output.logprobs[0] < -1e-3:
        return (
            "gives log-probabilities of the model's own distribution, not of what it samples from. Start vLLM with "
            "--logprobs-mode processed_logprobs."
        )
    expected = (_SECOND - _FIRST) / _HEAT
    if len(output.ranked) < 2 or abs(min(output.ranked[:2]) - expected) > _NEAR / _HEAT:
        return (
            "gives log-probabilities that leave the temperature out. Start SGLang without "
            "SGLANG_RETURN_ORIGINAL_LOGPROB."
        )
    return ""
