"""The provider of models in this process: a checkpoint of the user's."""

from __future__ import annotations

from saccade.generate.local_model import LocalModel
from saccade.models.learned_dialect import learned_dialect
from saccade.models.provider import Provider


def _local(provider: Provider, name: str) -> LocalModel:
    return LocalModel(name)


LOCAL = Provider(
    name="local",
    description="A checkpoint in this process by transformers, as in `local:FOLDER`.",
    example="local:FOLDER",
    make=_local,
    checkpoint=str,
    stop_strings="the generator",
    token_ids=True,
    function_calls=False,
    videos=True,
    video_frames=True,
    continues=True,
    learned_dialect=learned_dialect,
)
