"""Speak the token APIs of vLLM and SGLang, and check that a server's log-probabilities are of what it samples."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from saccade.core.retry import OutageError, RetryPolicy
from saccade.errors import ModelRefusedError
from saccade.tokens.segments import Encoder
from saccade.tokens.sequences import Policy
from saccade.training.rl.engines.server_http import Connection, PictureFile


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A turn to be sampled, whatever the kind of server."""

    ids: tuple[int, ...]
    """Everything read, each picture as one placeholder, which the server expands."""
    most: int
    """Tokens."""
    bias: Mapping[int, float]
    """Added to logits before they are divided by the temperature."""
    pictures: tuple[PictureFile, ...] = ()
    """In the order of their placeholders."""
    stop: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()
    """Ids that end a turn; sampled ones are given back too."""
    temperature: float = 1.0
    """0 is greedy."""
    seed: int = 0
    ranked: int = 0
    """How many of the likeliest ids to return as well, with their log-probabilities."""


@dataclass(frozen=True, slots=True)
class SampleOutput:
    """A sampled turn."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stopped: bool
    """Whether an end of turn or a stop string ended it, rather than the number of tokens."""
    count: int | None
    """Tokens that the server read, pictures expanded; None where it does not tell."""
    read: tuple[int, ...] | None = None
    """Those tokens; None where it does not tell."""
    ranked: tuple[float, ...] = ()
    """Log-probabilities of the likeliest ids in place of the first token."""
    versions: frozenset[str] = frozenset()
    """Labels of the weights that sampled them; empty where the server does not tell."""


class Wire(Protocol):
    """The API of one kind of server."""

    path: str
    """Where turns are sampled."""

    def body(self, request: SampleRequest) -> dict[str, Any]:
        """Write the request as JSON, with a picture's mark in place of its URL."""

    def read(self, answer: Any) -> SampleOutput:
        """Read the answer.

        Raises `ModelRefusedError`: it is not of the format, or lacks what was asked for; `OutageError`: the turn was
        broken off.
        """

    async def reload(self, connection: Connection, folder: Path, version: str) -> None:
        """Sample with the weights of the checkpoint in `folder`, and forget everything computed with others.

        From then on answers are labelled with `version`. Raises `ModelError`: the server cannot.
        """


def paired(ids: Sequence[int], pairs: Sequence[tuple[int, float | None]], who: str) -> tuple[float, ...]:
    """Return the log-probability of each of `ids`, from the `pairs` of id and log-probability.

    Raises `ModelRefusedError`: they are not as many, of other ids, or no numbers.
    """
    if len(ids) != len(pairs):
        raise ModelRefusedError(
            f"{who} gave {len(ids)} tokens and {len(pairs)} log-probabilities; each token needs one to be trained on."
        )
    if any(token != other for token, (other, _) in zip(ids, pairs, strict=True)):
        raise ModelRefusedError(f"{who} gave log-probabilities of other tokens than it sampled.")
    values = [value for _, value in pairs if value is not None and _MISSING < value < _ROUNDING]
    if len(values) != len(ids):
        raise ModelRefusedError(f"{who} gave a token without its log-probability.")
    return tuple(min(0.0, value) for value in values)


def stopped(reason: str | None, who: str) -> bool:
    """Return whether written text ended a turn with this `reason`. Raises OutageError if it was aborted."""
    if reason not in ("stop", "length"):
        raise OutageError(f"{who} broke a turn off ({reason}).")
    return reason == "stop"


def _sampling(request: SampleRequest) -> dict[str, Any]:
    """Return what both servers call by the same names."""
    return {
        "temperature": request.temperature,
        "top_p": 1.0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "stop": list(request.stop),
        "stop_token_ids": list(request.ends),
        "logit_bias": {str(token): bias for token, bias in request.bias.items()},
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
    }


_MISSING = -9000.0
"""vLLM writes -9999 where it has none."""
_ROUNDING = 1e-3
_Entry = tuple[float | None, int, Any]
"""Log-probability, id, and text, which is None unless asked for."""


class _SglangFinish(BaseModel):
    type: str


class _SglangMeta(BaseModel):
    prompt_tokens: int
    finish_reason: _SglangFinish | None = None
    output_token_logprobs: list[_Entry] | None = None
    output_top_logprobs: list[list[_Entry] | None] | None = None
    weight_version: str | None = None


class _SglangAnswer(BaseModel):
    output_ids: list[int]
    meta_info: _SglangMeta


class SglangWire:
    """SGLang's `POST /generate`, read in version 0.5.23: `python -m sglang.launch_server --model-path MODEL`.

    `input_ids` hold one placeholder for each picture of `image_data`; the server expands it and keeps all other ids
    (`SGLANG_MM_AVOID_RETOKENIZE`, on by default). Log-probabilities are of logits with bias, divided by the temperature
    (unless `SGLANG_RETURN_ORIGINAL_LOGPROB` is set). Seeds count only with `--enable-deterministic-inference`. It says
    how many tokens it read, not which.
    """

    path = "/generate"

    def body(self, request: SampleRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "input_ids": list(request.ids),
            "sampling_params": {
                **_sampling(request),
                "top_k": -1,
                "max_new_tokens": request.most,
                "sampling_seed": request.seed,
                "no_stop_trim": True,
            },
            "return_logprob": True,
            "logprob_start_len": -1,
            "top_logprobs_num": request.ranked,
            "stream": False,
        }
        if request.pictures:
            body["image_data"] = [picture.mark for picture in request.pictures]
        return body

    def read(self, answer: Any) -> SampleOutput:
        try:
            answered = _SglangAnswer.model_validate(answer)
        except ValidationError as error:
            raise ModelRefusedError(f"SGLang answered in another format than expected: {error}") from error
        meta = answered.meta_info
        reason = None if meta.finish_reason is None else meta.finish_reason.type
        if meta.output_token_logprobs is None:
            raise ModelRefusedError("SGLang gave no log-probabilities, and they were asked for.")
        ranked = (meta.output_top_logprobs or [None])[0] or []
        return SampleOutput(
            tuple(answered.output_ids),
            paired(answered.output_ids, [(token, value) for value, token, _ in meta.output_token_logprobs], "SGLang"),
            stopped(reason, "SGLang"),
            meta.prompt_tokens,
            ranked=tuple(value for value, _, _ in ranked if value is not None),
            versions=frozenset() if meta.weight_version is None else frozenset([meta.weight_version]),
        )

    async def reload(self, connection: Connection, folder: Path, version: str) -> None:
        answered = await connection.post(
            "/update_weights_from_disk", {"model_path": str(folder), "flush_cache": True, "weight_version": version}
        )
        if not isinstance(answered, dict) or answered.get("success") is not True:
            said = answered.get("message") if isinstance(answered, dict) else answered
            raise ModelRefusedError(f"SGLang did not take the weights in {folder}: {said}")


class _VllmRanked(BaseModel):
    logprob: float


class _VllmToken(BaseModel):
    logprob: float
    token_id: int | None = None
    """Older versions write it into `token`, as `token_id:5`."""
    token: str = ""
    top_logprobs: list[_VllmRanked] = []

    @property
    def id(self) -> int:
        """-1 where it is not given."""
        if self.token_id is not None:
            return self.token_id
        digits = self.token.removeprefix("token_id:")
        return int(digits) if digits.isdigit() else -1


class _VllmLogprobs(BaseModel):
    content: list[_VllmToken] | None = None


class _VllmSpan(BaseModel):
    version: str


class _VllmChoice(BaseModel):
    token_ids: list[int]
    logprobs: _VllmLogprobs | None = None
    finish_reason: str | None = None
    weight_versions: list[_VllmSpan] | None = None


class _VllmUsage(BaseModel):
    prompt_tokens: int


class _VllmAnswer(BaseModel):
    choices: list[_VllmChoice]
    prompt_token_ids: list[int] | None = None
    usage: _VllmUsage | None = None


class VllmWire:
    """vLLM's `POST /inference/v1/generate`, used in version 0.32.0, read in 0.33.

        vllm serve MODEL --enable-scale-out --logprobs-mode processed_logprobs

    `token_ids` hold one placeholder for each of `content_parts`; the server expands it and returns what it read. Bias
    comes before temperature, and both before log-probabilities in that mode. New weights need `VLLM_SERVER_DEV_MODE=1`,
    which opens `/collective_rpc` and the caches to whoever reaches the port.
    """

    path = "/inference/v1/generate"

    def __init__(self, model: str) -> None:
        """`model` is the name under which the server serves it."""
        self._model = model

    def body(self, request: SampleRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "token_ids": list(request.ids),
            "sampling_params": {
                **_sampling(request),
                "top_k": 0,
                "max_tokens": request.most,
                "seed": request.seed,
                "logprobs": request.ranked,
            },
            "return_token_ids": True,
            "stream": False,
        }
        if request.pictures:
            body["content_parts"] = [{"type": "image_url", "url": picture.mark} for picture in request.pictures]
        return body

    def read(self, answer: Any) -> SampleOutput:
        try:
            answered = _VllmAnswer.model_validate(answer)
            choice = answered.choices[0]
        except (ValidationError, IndexError) as error:
            raise ModelRefusedError(f"vLLM answered in another format than expected: {error}") from error
        content = None if choice.logprobs is None else choice.logprobs.content
        if content is None:
            raise ModelRefusedError("vLLM gave no log-probabilities; start it with --logprobs-mode processed_logprobs")
        return SampleOutput(
            tuple(choice.token_ids),
            paired(choice.token_ids, [(token.id, token.logprob) for token in content], "vLLM"),
            stopped(choice.finish_reason, "vLLM"),
            None if answered.usage is None else answered.usage.prompt_tokens,
            None if answered.prompt_token_ids is None else tuple(answered.prompt_token_ids),
            tuple(item.logprob for item in content[0].top_logprobs) if content else (),
            frozenset(span.version for span in choice.weight_versions or ()),
        )

    async def reload(self, connection: Connection, folder: Path, version: str) -> None:
        try:
            await connection.post(
                "/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
            )
            cleared = await connection.post("/reset_prefix_cache")
            await connection.post("/reset_mm_cache")
            # Reloading drops the encoded pictures of the worker and not the scheduler's list of them: without this the
            # first request with a picture of before ends the whole server.
            await connection.post("/reset_encoder_cache")
            await connection.post("/update_weight_version", {"new_version": version})
        except ModelRefusedError as error:
            raise ModelRefusedError(
                f"{error} New weights need a vLLM server that was started with VLLM_SERVER_DEV_MODE=1, sees {folder} "
                "has /collective_rpc, /reset_prefix_cache, /reset_mm_cache, /reset_encoder_cache and "
                "/update_weight_version, as 0.32.0 does."
            ) from error
        if isinstance(cleared, dict) and cleared.get("success") is False:
            raise ModelRefusedError(
                "vLLM kept what it computed with the old weights: it works for another run. It must serve "
                "this run alone."
            )


_HEAT = 2.0
_FIRST, _SECOND = 500.0, 400.0
"""Bias of two tokens. So far above all others, the first has a log-probability of 0 wherever bias counts, and the
second is behind it by about their difference, divided by the temperature where that counts."""
_NEAR = 36.0
"""Most by which the model itself may prefer one of the two tokens, divided by the temperature."""


class EncodedPolicy(Policy, Protocol):
    """A policy with its encoder; a checkpoint that is ready for training is one."""

    @property
    def encoder(self) -> Encoder:
        """Its encoder."""


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
    """Check that a server answers at each of `addresses`, before a run begins.

    Raises `ModelLostError`: one does not, after all tries; `ModelRefusedError`: it is not a server that samples.
    """
    connections = [Connection(address, retry=retry) for address in addresses]
    try:
        await asyncio.gather(*(connection.get("/v1/models") for connection in connections))
    finally:
        await asyncio.gather(*(connection.close() for connection in connections))


async def check_server(connection: Connection, policy: EncodedPolicy) -> CheckedServer:
    """Check the server at `connection`.

    Raises `ModelLostError`: it cannot be reached; `ModelRefusedError`: it is neither vLLM nor SGLang, or its
    log-probabilities are of no use.
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
    """Describe what is wrong with a token sampled under a bias; empty for nothing."""
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
