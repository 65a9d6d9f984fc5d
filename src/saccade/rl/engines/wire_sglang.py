"""SGLang's own `POST /generate`, read in version 0.5.23.

    python -m sglang.launch_server --model-path MODEL

`input_ids` hold one placeholder for each picture of `image_data`; the server expands it and keeps all other ids
(`SGLANG_MM_AVOID_RETOKENIZE`, on by itself). Log-probabilities are of logits with bias, divided by the temperature
(unless `SGLANG_RETURN_ORIGINAL_LOGPROB` is set). Seeds count with `--enable-deterministic-inference` alone. It tells
how many tokens it read, not which.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from saccade.errors import ModelRefusedError
from saccade.rl.engines.server_http import Connection
from saccade.rl.engines.wire import SampleOutput, SampleRequest, paired, stopped

_WHO = "SGLang"
_Entry = tuple[float | None, int, Any]
"""Log-probability, id, and text, which is None unless asked for."""


class _Finish(BaseModel):
    type: str


class _Meta(BaseModel):
    prompt_tokens: int
    finish_reason: _Finish | None = None
    output_token_logprobs: list[_Entry] | None = None
    output_top_logprobs: list[list[_Entry] | None] | None = None
    weight_version: str | None = None


class _Answer(BaseModel):
    output_ids: list[int]
    meta_info: _Meta


class SglangWire:
    """The `wire.Wire` of an SGLang server."""

    path = "/generate"

    def body(self, request: SampleRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "input_ids": list(request.ids),
            "sampling_params": {
                "temperature": request.temperature,
                "top_p": 1.0,
                "top_k": -1,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                "max_new_tokens": request.most,
                "sampling_seed": request.seed,
                "stop": list(request.stop),
                "stop_token_ids": list(request.ends),
                "logit_bias": {str(token): bias for token, bias in request.bias.items()},
                "skip_special_tokens": False,
                "spaces_between_special_tokens": False,
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
            answered = _Answer.model_validate(answer)
        except ValidationError as error:
            raise ModelRefusedError(f"{_WHO} answered in another format than expected: {error}") from error
        meta = answered.meta_info
        reason = None if meta.finish_reason is None else meta.finish_reason.type
        if meta.output_token_logprobs is None:
            raise ModelRefusedError(f"{_WHO} gave no log-probabilities, and they were asked for.")
        ranked = (meta.output_top_logprobs or [None])[0] or []
        return SampleOutput(
            tuple(answered.output_ids),
            paired(answered.output_ids, [(token, value) for value, token, _ in meta.output_token_logprobs], _WHO),
            stopped(reason, _WHO),
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
            raise ModelRefusedError(f"{_WHO} did not take the weights in {folder}: {said}")
