"""The providers of models in this process: a checkpoint of the user's, and the bundled small one."""

from __future__ import annotations

from dataclasses import replace

from saccade.errors import RegistryError
from saccade.generate.local_model import LocalModel
from saccade.models.learned_dialect import learned_dialect
from saccade.models.provider import Provider
from saccade.models.tiny_weights import FOLDER, tiny_weights


def _local(provider: Provider, name: str) -> LocalModel:
    return LocalModel(name)


def _tiny(provider: Provider, name: str) -> LocalModel:
    if name:
        raise RegistryError(f"tiny is one model and takes no name, so not {name!r}; your own weights are local:FOLDER")
    return LocalModel(str(tiny_weights()))


def _learned_by_tiny(name: str) -> str:
    return learned_dialect(FOLDER)


LOCAL = Provider(
    name="local",
    description="A checkpoint in this process by transformers, as in `local:FOLDER`.",
    example="local:FOLDER",
    make=_local,
    stop_strings="the generator",
    token_ids=True,
    function_calls=False,
    videos=True,
    video_frames=True,
    continues=True,
    learned_dialect=learned_dialect,
)
TINY = replace(
    LOCAL,
    name="tiny",
    description="The small model that is bundled with Saccade; it takes no name.",
    example="tiny",
    make=_tiny,
    takes_name=False,
    learned_dialect=_learned_by_tiny,
)
