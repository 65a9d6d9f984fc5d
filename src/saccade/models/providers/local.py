"""A checkpoint in this process, by transformers."""

from __future__ import annotations

from saccade.models.learned_dialect import learned_dialect
from saccade.models.local import LocalModel
from saccade.models.provider import Provider


def _model(provider: Provider, name: str) -> LocalModel:
    return LocalModel(name)


LOCAL = Provider(
    name="local",
    description="A checkpoint in this process by transformers, as in `local:FOLDER`.",
    example="local:FOLDER",
    make=_model,
    stop_strings="the generator",
    token_ids=True,
    function_calls=False,
    continues=True,
    learned_dialect=learned_dialect,
)
