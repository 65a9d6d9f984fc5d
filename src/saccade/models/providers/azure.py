"""Azure OpenAI: OpenAI's models, as deployments at an address of one's own."""

from __future__ import annotations

from saccade.models.openai_wire import Server
from saccade.models.providers.openai import chat_model

AZURE = Server(
    name="azure",
    telemetry_name="azure.ai.openai",
    description="Azure OpenAI, as in `azure:DEPLOYMENT@https://NAME.openai.azure.com/openai/v1/`.",
    example="azure:DEPLOYMENT@https://NAME.openai.azure.com/openai/v1/",
    make=chat_model,
    key_names=("AZURE_OPENAI_API_KEY",),
    needs_key=True,
    length_field="max_completion_tokens",
    one_call=True,
    dialect="native",
    dialect_reason="the function calls of its API",
)
