"""Any other server with chat completions: only what all of them can do is asked of it."""

from __future__ import annotations

from saccade.models.providers.openai import Server, chat_model
from saccade.models.thinking import azure_thinking, compatible_thinking, template_says, template_thinking

COMPATIBLE = Server(
    name="compatible",
    description="Any other server with chat completions, as in `compatible:NAME@http://host:8000/v1`.",
    example="compatible:NAME@http://host:8000/v1",
    make=chat_model,
    reasoning=compatible_thinking,
)


# Azure OpenAI: OpenAI's models, as deployments at an address of the user's own.


AZURE = Server(
    name="azure",
    telemetry_name="azure.ai.openai",
    description="Azure OpenAI, as in `azure:DEPLOYMENT@https://NAME.openai.azure.com/openai/v1/`.",
    example="azure:DEPLOYMENT@https://NAME.openai.azure.com/openai/v1/",
    make=chat_model,
    key_names=("AZURE_OPENAI_API_KEY",),
    reasoning=azure_thinking,
    needs_key=True,
    length_field="max_completion_tokens",
    one_call=True,
    dialect="native",
    dialect_reason="the function calls of its API",
)


# An SGLang server: keeps stop strings, gives token ids unless it streams, takes videos, and continues texts.


SGLANG = Server(
    name="sglang",
    description="An SGLang server, as in `sglang:NAME@http://host:30000/v1`.",
    example="sglang:NAME@http://host:30000/v1",
    make=chat_model,
    unknown_sampling=frozenset(),
    reasoning=template_thinking,
    reasoning_says=template_says,
    always={"logprobs": True, "return_meta_info": True},
    with_stops={"no_stop_trim": True},
    names_stop=True,
    stop_strings="the server",
    token_ids=True,
    ids_in_streams=False,
    videos=True,
    one_call=True,
    continues=True,
)


# A vLLM server: keeps stop strings, gives token ids, takes videos, and continues messages.


VLLM = Server(
    name="vllm",
    description="A vLLM server, as in `vllm:NAME@http://host:8000/v1`.",
    example="vllm:NAME@http://host:8000/v1",
    make=chat_model,
    unknown_sampling=frozenset(),
    reasoning=template_thinking,
    reasoning_says=template_says,
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
