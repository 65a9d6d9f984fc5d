"""Any other server with chat completions: only what all of them can do is asked of it."""

from __future__ import annotations

from saccade.models.openai_wire import Server
from saccade.models.providers.openai import chat_model

COMPATIBLE = Server(
    name="compatible",
    description="Any other server with chat completions, as in `compatible:NAME@http://host:8000/v1`.",
    example="compatible:NAME@http://host:8000/v1",
    make=chat_model,
)
