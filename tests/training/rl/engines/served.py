"""A server that speaks vLLM's or SGLang's format for tokens in and out, over a tiny checkpoint: tokens are real."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response
from PIL import Image
from tests.models.listening import listening
from tests.training.rl.policies import TinyPolicy, policy

from saccade.media.store import MediaStore
from saccade.models.families.base import SpecialToken
from saccade.tokens.batch import PromptDelta
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.segments import PromptPicture
from saccade.tokens.sequences import Draws, SequenceBatch, TokenSequence, draw_tokens

Answer = dict[str, Any]
_LOADING = threading.Lock()
"""Weights are loaded by one thread at a time: transformers patches torch meanwhile."""


@dataclass
class Asked:
    """A turn as either format asks for it."""

    ids: list[int]
    urls: list[str]
    bias: dict[int, float]
    heat: float
    seed: int
    most: int
    stop: list[str]
    ends: list[int]
    ranked: int


@dataclass
class Made:
    """What was sampled."""

    read: tuple[int, ...]
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ranked: list[tuple[int, float]] = field(default_factory=list)
    stopped: bool = False


@dataclass
class SamplingServer:
    """One server; what is wrong with it can be set at any time."""

    kind: str
    policy: TinyPolicy
    media: MediaStore
    url: str = ""
    context: int = 2048
    deaf: bool = False
    """No bias."""
    raw: bool = False
    """Log-probabilities of the model's own distribution, as vLLM's without processed_logprobs."""
    cold: bool = False
    """Log-probabilities without temperature, as SGLang's SGLANG_RETURN_ORIGINAL_LOGPROB."""
    beyond: int = 0
    """Tokens that are sampled after a stop string."""
    faults: list[Callable[[Answer], Response]] = field(default_factory=list)
    """What becomes of the next answers."""
    bodies: list[Answer] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    encoded: set[str] = field(default_factory=set)
    """Pictures that were seen since its encoder's cache was emptied."""
    dropped: set[str] = field(default_factory=set)
    """Those of them whose features a reload has dropped: asking for one ends a real vLLM."""
    version: str = "default"
    """Label of its weights."""
    sleeps: bool = True
    """Whether it was started with --enable-sleep-mode."""
    away: list[str] = field(default_factory=list)
    """Parts that have no memory while it sleeps."""
    orders: list[str] = field(default_factory=list)
    """What it was told about sleep and weights."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    async def generate(self, request: Request) -> Response:
        assert not self.away, "it sleeps"
        body = await request.json()
        self.bodies.append(body)
        asked = _vllm_asked(body) if self.kind == "vllm" else _sglang_asked(body)
        if len(asked.ids) >= self.context:
            return JSONResponse({"error": {"message": "the prompt is longer than the context"}}, 400)
        if self.kind == "vllm" and self.dropped.intersection(asked.urls):
            return JSONResponse({"error": {"message": "Encoder cache miss", "code": 500}}, 500)
        self.encoded.update(asked.urls)
        made = await run_in_threadpool(self._sample, asked)
        answer = _vllm_answer(made, self.version) if self.kind == "vllm" else _sglang_answer(made, asked, self.version)
        return self.faults.pop(0)(answer) if self.faults else JSONResponse(answer)

    def load(self, folder: str) -> None:
        assert "weights" not in self.away, "there is no memory for weights"
        with self.lock:
            self.orders.append("load")
            with _LOADING:
                self.policy = policy(Path(folder))
            self.loaded.append(folder)
            self.dropped |= self.encoded

    @torch.inference_mode()
    def _sample(self, asked: Asked) -> Made:
        with self.lock:
            parts = [self.media.put_image(_picture(url)) for url in asked.urls]
            pictures = tuple(PromptPicture(part, self.policy.encoder.count(part)) for part in parts)
            made = Made(self._expanded(asked.ids, pictures))
            sequence = TokenSequence(np.random.default_rng(asked.seed))
            batch = SequenceBatch(self.policy, PictureTensors(self.policy.encoder, self.media), [sequence], 8192)
            sequence.extend(PromptDelta(made.read, pictures))
            after = -1
            while len(made.ids) < asked.most and after:
                token = self._token(batch, asked, made)
                sequence.ids.append(token)
                sequence.unread = 1
                text = self.policy.checkpoint.tokenizer.decode(made.ids, skip_special_tokens=False)
                if token in asked.ends:
                    after, made.stopped = 0, True
                elif made.stopped or any(stop in text for stop in asked.stop):
                    after = after - 1 if made.stopped else self.beyond
                    made.stopped = True
            return made

    def _token(self, batch: SequenceBatch, asked: Asked, made: Made) -> int:
        plain = batch.read(1)
        bias = torch.zeros_like(plain)
        for token, value in ({} if self.deaf else asked.bias).items():
            bias[0, token] = value
        nothing = torch.zeros(plain.shape[-1], dtype=torch.bool)
        heat, greedy, uniforms = Draws([asked.heat], [batch.sequences[0].uniforms(1)]).tensors(plain.device)
        batch.sequences[0].drawn.clear()
        drawn = draw_tokens(plain + bias, nothing, heat, greedy, uniforms[:, 0])
        token, logprob = int(drawn[0]), float(drawn[1])
        scaled = plain if self.raw else plain + bias if self.cold else (plain + bias) / (asked.heat or 1.0)
        logprobs = torch.log_softmax(scaled, -1)[0]
        if not made.ids and asked.ranked:
            values, ids = logprobs.topk(asked.ranked)
            made.ranked = list(zip(ids.tolist(), values.tolist(), strict=True))
        made.ids.append(token)
        made.logprobs.append(float(logprobs[token]) if self.raw or self.cold else logprob)
        return token

    def _expanded(self, ids: list[int], pictures: tuple[PromptPicture, ...]) -> tuple[int, ...]:
        """As vLLM does: of some families the marks around a picture are written here, and must not be there before."""
        encoder = self.policy.encoder
        assert ids.count(encoder.placeholder_id) == len(pictures), "one placeholder for each picture"
        left, read = iter(pictures), list[int]()
        for token in ids:
            if token == encoder.placeholder_id:
                tokens = [
                    piece for piece in encoder.family.picture(next(left).tokens) if isinstance(piece, SpecialToken)
                ]
                read += encoder.encode(tokens if encoder.family.own_marks else tokens[1:-1])[0]
            else:
                read.append(token)
        return tuple(read)


def _picture(url: str) -> Image.Image:
    head, data = url.split(",", 1)
    assert head == "data:image/png;base64"
    return Image.open(BytesIO(base64.b64decode(data)))


def _vllm_asked(body: Answer) -> Asked:
    params = body["sampling_params"]
    assert 0.0 <= params["temperature"] <= 2.0
    assert (params["top_p"], params["top_k"], params["min_p"], params["repetition_penalty"]) == (1.0, 0, 0.0, 1.0)
    assert len(params["logit_bias"]) <= 1024
    urls = [part["url"] for part in body.get("content_parts", [])]
    bias = {int(token): value for token, value in params["logit_bias"].items()}
    return Asked(
        body["token_ids"],
        urls,
        bias,
        params["temperature"],
        params["seed"],
        params["max_tokens"],
        params["stop"],
        params["stop_token_ids"],
        params["logprobs"],
    )


def _vllm_answer(made: Made, version: str) -> Answer:
    content = [
        {"token_id": token, "logprob": value, "rank": None, "top_logprobs": []}
        for token, value in zip(made.ids, made.logprobs, strict=True)
    ]
    content[0]["top_logprobs"] = [{"token_id": token, "logprob": value, "rank": 1} for token, value in made.ranked]
    choice = {
        "index": 0,
        "finish_reason": "stop" if made.stopped else "length",
        "stop_reason": None,
        "token_ids": made.ids,
        "logprobs": {"content": content},
        "weight_versions": [{"version": version, "start": 0, "end": len(made.ids)}],
    }
    usage = {"prompt_tokens": len(made.read), "completion_tokens": len(made.ids), "total_tokens": 0}
    return {"request_id": "1", "choices": [choice], "usage": usage, "prompt_token_ids": list(made.read)}


def _sglang_asked(body: Answer) -> Asked:
    params = body["sampling_params"]
    assert (params["top_p"], params["top_k"], params["min_p"], params["repetition_penalty"]) == (1.0, -1, 0.0, 1.0)
    assert body["return_logprob"]
    assert params["no_stop_trim"]
    bias = {int(token): value for token, value in params["logit_bias"].items()}
    return Asked(
        body["input_ids"],
        body.get("image_data", []),
        bias,
        params["temperature"],
        params["sampling_seed"],
        params["max_new_tokens"],
        params["stop"],
        params["stop_token_ids"],
        body["top_logprobs_num"],
    )


def _sglang_answer(made: Made, asked: Asked, version: str) -> Answer:
    finish = {"type": "stop", "matched": made.ids[-1]} if made.stopped else {"type": "length", "length": asked.most}
    pairs = zip(made.ids, made.logprobs, strict=True)
    meta: Answer = {
        "id": "1",
        "finish_reason": finish,
        "prompt_tokens": len(made.read),
        "weight_version": version,
        "output_token_logprobs": [[value, token, None] for token, value in pairs],
        "output_token_logprobs_length": len(made.ids),
    }
    if made.ranked:
        meta["output_top_logprobs"] = [[[value, token, None] for token, value in made.ranked]]
    return {"text": "", "output_ids": made.ids, "meta_info": meta}


def _app(server: SamplingServer) -> FastAPI:
    app = FastAPI()
    app.post("/inference/v1/generate" if server.kind == "vllm" else "/generate")(server.generate)

    @app.get("/v1/models")
    def models() -> Answer:
        return {"data": [{"id": "tiny", "owned_by": server.kind, "max_model_len": server.context}]}

    @app.post("/collective_rpc")
    def collective_rpc(body: Answer) -> Answer:
        assert body["method"] == "reload_weights"
        server.load(body["kwargs"]["weights_path"])
        return {"results": [None]}

    @app.post("/reset_prefix_cache")
    def reset_prefix_cache() -> Answer:
        return {"success": True}

    @app.post("/reset_mm_cache")
    def reset_mm_cache() -> Response:
        return Response(status_code=200)

    @app.post("/reset_encoder_cache")
    def reset_encoder_cache() -> Response:
        server.encoded.clear()
        server.dropped.clear()
        return Response(status_code=200)

    @app.post("/update_weight_version")
    def update_weight_version(body: Answer) -> None:
        server.version = body["new_version"]

    @app.post("/sleep")
    def sleep(level: int) -> Response:
        server.orders.append(f"sleep {level}")
        server.away = ["weights", "kv_cache"] if server.sleeps else []
        return Response(status_code=200)

    @app.get("/is_sleeping")
    def is_sleeping() -> Answer:
        return {"is_sleeping": bool(server.away)}

    @app.post("/wake_up")
    def wake_up(tags: str) -> Answer:
        server.orders.append(f"wake {tags}")
        server.away.remove(tags)
        return {"status": "sleeping" if server.away else "awake", "tags": [tags]}

    @app.post("/update_weights_from_disk")
    def update_weights_from_disk(body: Answer) -> Response:
        if not Path(body["model_path"], "model.safetensors").exists():
            return JSONResponse({"success": False, "message": "no weights there"}, 400)
        server.load(body["model_path"])
        server.version = body["weight_version"]
        return JSONResponse(
            {"success": True, "message": "Succeeded to update model weights.", "num_paused_requests": 0}
        )

    return app


@contextmanager
def running(kind: str, made: TinyPolicy, media: MediaStore) -> Iterator[SamplingServer]:
    server = SamplingServer(kind, made, media)
    with listening(_app(server)) as server.url:
        yield server
