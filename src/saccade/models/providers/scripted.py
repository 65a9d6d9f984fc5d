"""A JSON list of texts, played in order."""

from __future__ import annotations

from pathlib import Path

from saccade.models.provider import Provider
from saccade.models.scripted import ScriptedModel, scripted_from_file


def _model(provider: Provider, name: str) -> ScriptedModel:
    return scripted_from_file(Path(name))


SCRIPTED = Provider(
    name="scripted",
    description="A JSON list of texts, played in order, as in `scripted:FILE.json`.",
    make=_model,
    samples=False,
    stop_strings="the script's reader",
    continues=True,
)
