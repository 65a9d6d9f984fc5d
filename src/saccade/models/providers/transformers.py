"""What `transformers serve` serves. Stop strings are cut by the client: 5.23 fails on them with pictures."""

from __future__ import annotations

from saccade.models.openai_wire import Server
from saccade.models.providers.openai import chat_model

TRANSFORMERS = Server(
    name="transformers",
    description="A server that `transformers serve` started, as in `transformers:FOLDER@http://host:8000/v1`.",
    example="transformers:FOLDER@http://host:8000/v1",
    make=chat_model,
    stops=False,
    stop_strings="the client",
)
