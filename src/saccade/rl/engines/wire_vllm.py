"""vLLM's tokens in, tokens out: `POST /inference/v1/generate`, met in version 0.32.0, read in 0.33.

    vllm serve MODEL --enable-scale-out --logprobs-mode processed_logprobs

`token_ids` hold one placeholder for each of `content_parts`; the server expands it and tells what it read. Bias comes
before temperature, and both before log-probabilities in that mode. New weights need `VLLM_SERVER_DEV_MODE=1`, which
opens `/collective_rpc` and the caches to whoever reaches the port.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from saccade.errors import ModelRefusedError
from saccade.rl.engines.server_http import Connection
from saccade.rl.engines.wire import SampleOutput, SampleRequest, paired, stopped

_WHO = "vLLM"


class _Ranked(BaseModel):
    logprob: float


class _Token(BaseModel):
    logprob: float
    token_id: int | None = None
    """Older versions write it into `token`, as `token_id:5`."""
    token: str = ""
    top_logprobs: list[_Ranked] = []

    @property
    def id(self) -> int:
        """-1 where it is not given."""
        if self.token_id is not None:
            return self.token_id
        digits = self.token.removeprefix("token_id:")
        return int(digits) if digits.isdigit() else -1


class _Logprobs(BaseModel):
    content: list[_Token] | None = None


class _Span(BaseModel):
    version: str


class _Choice(BaseModel):
    token_ids: list[int]
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None
    weight_versions: list[_Span] | None = None


class _Usage(BaseModel):
    prompt_tokens: int


class _Answer(BaseModel):
    choices: list[_Choice]
    prompt_token_ids: list[int] | None = None
    usage: _Usage | None = None


class VllmWire:
    """The `wire.Wire` of a vLLM server."""

    path = "/inference/v1/generate"

    def __init__(self, model: str) -> None:
        """`model` is the name under which the server serves it."""
        self._model = model

    def body(self, request: SampleRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "token_ids": list(request.ids),
            "sampling_params": {
                "temperature": request.temperature,
                "top_p": 1.0,
                "top_k": 0,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                "max_tokens": request.most,
                "seed": request.seed,
                "stop": list(request.stop),
                "stop_token_ids": list(request.ends),
                "logit_bias": {str(token): bias for token, bias in request.bias.items()},
                "logprobs": request.ranked,
                "skip_special_tokens": False,
                "spaces_between_special_tokens": False,
            },
            "return_token_ids": True,
            "stream": False,
        }
        if request.pictures:
            body["content_parts"] = [{"type": "image_url", "url": picture.mark} for picture in request.pictures]
        return body

    def read(self, answer: Any) -> SampleOutput:
        try:
            answered = _Answer.model_validate(answer)
            choice = answered.choices[0]
        except (ValidationError, IndexError) as error:
            raise ModelRefusedError(f"{_WHO} answered in another format than expected: {error}") from error
        content = None if choice.logprobs is None else choice.logprobs.content
        if content is None:
            raise ModelRefusedError(
                f"{_WHO} gave no log-probabilities; start it with --logprobs-mode processed_logprobs"
            )
        return SampleOutput(
            tuple(choice.token_ids),
            paired(choice.token_ids, [(token.id, token.logprob) for token in content], _WHO),
            stopped(choice.finish_reason, _WHO),
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
                f"{_WHO} kept what it computed with the old weights: it is at work for somebody else. It must serve "
                "this run alone."
            )
