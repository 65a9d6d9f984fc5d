"""An SGLang server: keeps stop strings, gives token ids unless it streams, takes videos, and continues texts."""

from __future__ import annotations

from saccade.models.openai_wire import Server
from saccade.models.providers.openai import chat_model

SGLANG = Server(
    name="sglang",
    description="An SGLang server, as in `sglang:NAME@http://host:30000/v1`.",
    example="sglang:NAME@http://host:30000/v1",
    make=chat_model,
    unknown_sampling=frozenset(),
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
