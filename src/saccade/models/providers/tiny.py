"""The small model that is bundled with Saccade."""

from __future__ import annotations

from dataclasses import replace

from saccade.errors import RegistryError
from saccade.models.learned_dialect import learned_dialect
from saccade.models.local import LocalModel
from saccade.models.provider import Provider
from saccade.models.providers.local import LOCAL
from saccade.models.tiny_weights import FOLDER, tiny_weights


def _model(provider: Provider, name: str) -> LocalModel:
    if name:
        raise RegistryError(f"tiny is one model and takes no name, so not {name!r}; your own weights are local:FOLDER")
    return LocalModel(str(tiny_weights()))


def _learned(name: str) -> str:
    return learned_dialect(FOLDER)


TINY = replace(
    LOCAL,
    name="tiny",
    description="The small model that is bundled with Saccade; it takes no name.",
    example="tiny",
    make=_model,
    takes_name=False,
    learned_dialect=_learned,
)
