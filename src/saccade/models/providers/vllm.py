"""A vLLM server: keeps stop strings, gives token ids, takes videos, and continues messages."""

from __future__ import annotations

from saccade.models.openai_wire import Server
from saccade.models.providers.openai import chat_model

VLLM = Server(
    name="vllm",
    description="A vLLM server, as in `vllm:NAME@http://host:8000/v1`.",
    example="vllm:NAME@http://host:8000/v1",
    make=chat_model,
    unknown_sampling=frozenset(),
    always={"logprobs": True, "return_token_ids": True, "return_tokens_as_token_ids": True},
    with_stops={"include_stop_str_in_output": True},
    names_stop=True,
    stop_strings="the server",
    token_ids=True,
    videos=True,
    one_call=True,
    continues=True,
    continues_pictures=True,
)
