"""verl's client over a tiny checkpoint in this process: the tokens are real, no process of verl is there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import torch
from tests.training.rl.engines.served import Asked, SamplingServer
from tests.training.rl.policies import TinyPolicy

from saccade.media.store import MediaStore
from saccade.models.pictures import saved_picture


@dataclass
class Output:
    """What verl calls a `TokenOutput`."""

    token_ids: list[int]
    log_probs: list[float] | None
    stop_reason: str | None = "completed"
    extra_fields: dict[str, Any] = field(default_factory=dict)


class LocalClient:
    """Samples as vLLM does for the parameters that it is given."""

    def __init__(self, made: TinyPolicy, media: MediaStore, version: int = 0) -> None:
        self.server = SamplingServer("vllm", made, media)
        self.placeholder = made.encoder.placeholder_id
        self.version = version
        self.asked: list[dict[str, Any]] = []
        self.faults: list[Any] = []

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: list[Any] | None = None,
    ) -> Output:
        self.asked.append({"id": request_id, "ids": prompt_ids, **sampling_params})
        if self.faults and (fault := self.faults.pop(0)) is not None:
            await fault()
        made = await asyncio.to_thread(self._sample, prompt_ids, sampling_params, image_data or [])
        steps = {"min_global_steps": self.version, "max_global_steps": self.version}
        return Output(made.ids, made.logprobs, extra_fields=steps)

    @torch.inference_mode()
    def _sample(self, ids: list[int], params: dict[str, Any], images: list[Any]) -> Any:
        one_each = [t for n, t in enumerate(ids) if t != self.placeholder or ids[n - 1] != self.placeholder]
        urls = [saved_picture(image, "PNG").url for image in images]
        return self.server._sample(
            Asked(
                one_each,
                urls,
                params["logit_bias"],
                params["temperature"],
                params["seed"],
                params["max_tokens"],
                params.get("stop", []),
                params["stop_token_ids"],
                0,
            )
        )
