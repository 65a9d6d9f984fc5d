"""Models by their name on a command line: `provider:name` or `provider:name@address`.

    openai:gpt-4.1                              azure:DEPLOYMENT@https://NAME.openai.azure.com/openai/v1/
    anthropic:claude-opus-4-8                   compatible:NAME@http://host:8000/v1
    vllm:Qwen/Qwen2.5-VL-7B-Instruct@http://host:8000/v1        sglang:NAME@http://host:30000/v1
    transformers:FOLDER@http://host:8000/v1     (what `transformers serve` serves)
    local:FOLDER                                local:Qwen/Qwen2.5-VL-7B-Instruct
    scripted:FILE.json                          replay:FILE.jsonl
    tiny                                        (the weights that come with Saccade; needs no name)

A client package is imported when a model that needs it is made. Whether the provider knows the model shows only when it
is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from saccade.errors import RegistryError
from saccade.models.anthropic import AnthropicModel
from saccade.models.base import Model
from saccade.models.endpoint import Endpoint
from saccade.models.local import LocalModel
from saccade.models.openai import OpenAIModel
from saccade.models.openai_wire import SERVERS
from saccade.models.replay import replay_from_file
from saccade.models.scripted import scripted_from_file
from saccade.models.tiny_weights import tiny_weights
from saccade.record.suggest import did_you_mean

_ADDRESS = re.compile(r"(?P<model>.+)@(?P<url>https?://\S+)")


def _scripted(rest: str) -> Model:
    return scripted_from_file(Path(rest))


def _replay(rest: str) -> Model:
    return replay_from_file(Path(rest))


def _anthropic(rest: str) -> Model:
    return AnthropicModel(_endpoint(rest))


def _local(rest: str) -> Model:
    return LocalModel(rest)


def _tiny(rest: str) -> Model:
    if rest:
        raise RegistryError(f"tiny is one model and takes no name, so not {rest!r}; your own weights are local:FOLDER")
    return LocalModel(str(tiny_weights()))


def _protocol(server: str) -> Callable[[str], Model]:
    return lambda rest: OpenAIModel(_endpoint(rest), server=server)


PROVIDERS: Mapping[str, Callable[[str], Model]] = {
    **{server: _protocol(server) for server in SERVERS},
    "anthropic": _anthropic,
    "local": _local,
    "scripted": _scripted,
    "replay": _replay,
    "tiny": _tiny,
}
"""Provider -> how to make a model of it from what follows the colon."""


def load_model(wanted: str) -> Model:
    """The model that `wanted` names.

    Raises:
        RegistryError: the provider is unknown (suggests the nearest), or no name follows it.
        UnavailableError: its client package is not installed.
        ModelRefusedError: it needs a key and there is none in the environment.
        SettingsError: it needs an address, or its file cannot be used.
    """
    provider, colon, rest = wanted.partition(":")
    if provider not in PROVIDERS:
        raise RegistryError(
            f"there is no provider of models {provider!r}. {did_you_mean(provider, PROVIDERS)}".rstrip()
        )
    if provider != "tiny" and (not colon or not rest):
        raise RegistryError(f"{wanted!r} names no model: write {provider}:NAME, as in openai:gpt-4.1")
    return PROVIDERS[provider](rest)


def _endpoint(rest: str) -> Endpoint:
    match = _ADDRESS.fullmatch(rest)
    return Endpoint(match["model"], base_url=match["url"]) if match else Endpoint(rest)
