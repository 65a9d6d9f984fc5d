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
from saccade.rl.engines.wire import Draw, Drawn, paired, stopped

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


class _Answer(BaseModel):
    output_ids: list[int]
    meta_info: _Meta


class SglangWire:
    """The `wire.Wire` of an SGLang server."""

    path = "/generate"

    def body(self, draw: Draw) -> dict[str, Any]:
        asked: dict[str, Any] = {
            "input_ids": list(draw.ids),
            "sampling_params": {
                "temperature": draw.temperature,
                "top_p": 1.0,
                "top_k": -1,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                "max_new_tokens": draw.most,
                "sampling_seed": draw.seed,
                "stop": list(draw.stop),
                "stop_token_ids": list(draw.ends),
                "logit_bias": {str(token): bias for token, bias in draw.bias.items()},
                "skip_special_tokens": False,
                "spaces_between_special_tokens": False,
                "no_stop_trim": True,
            },
            "return_logprob": True,
            "logprob_start_len": -1,
            "top_logprobs_num": draw.ranked,
            "stream": False,
        }
        if draw.pictures:
            asked["image_data"] = list(draw.pictures)
        return asked

    def read(self, answer: Any) -> Drawn:
        try:
            told = _Answer.model_validate(answer)
        except ValidationError as error:
            raise ModelRefusedError(f"{_WHO} answered in another format than expected: {error}") from error
        meta = told.meta_info
        reason = None if meta.finish_reason is None else meta.finish_reason.type
        if meta.output_token_logprobs is None:
            raise ModelRefusedError(f"{_WHO} gave no log-probabilities, and they were asked for.")
        ranked = (meta.output_top_logprobs or [None])[0] or []
        return Drawn(
            tuple(told.output_ids),
            paired(told.output_ids, [(token, value) for value, token, _ in meta.output_token_logprobs], _WHO),
            stopped(reason, _WHO),
            meta.prompt_tokens,
            ranked=tuple(value for value, _, _ in ranked if value is not None),
        )

    async def reload(self, connection: Connection, folder: Path) -> None:
        told = await connection.post("/update_weights_from_disk", {"model_path": str(folder), "flush_cache": True})
        if not isinstance(told, dict) or told.get("success") is not True:
            said = told.get("message") if isinstance(told, dict) else told
            raise ModelRefusedError(f"{_WHO} did not take the weights in {folder}: {said}")
