"""The providers that Saccade brings: each a function that makes a model of what follows its name and a colon.

Nothing here reaches a server: whether the provider knows the model shows when it is asked. Client packages are imported
by the model that needs them.
"""

from __future__ import annotations

import re
from pathlib import Path

from saccade.errors import RegistryError, SettingsError
from saccade.models.anthropic import AnthropicModel
from saccade.models.base import Model
from saccade.models.endpoint import Endpoint
from saccade.models.local import LocalModel
from saccade.models.openai import OpenAIModel
from saccade.models.replay import replay_from_file
from saccade.models.scripted import scripted_from_file
from saccade.models.tiny_weights import tiny_weights

_ADDRESS = re.compile(r"(?P<model>.+)@(?P<url>https?://\S+)")
_BARE_ADDRESS = re.compile(r"(?P<model>.+)@(?P<host>[\w.-]+:\d+|localhost|\[[0-9a-fA-F:]+\](?::\d+)?)(?P<path>(/\S*)?)")
"""An address without its scheme. A name with an @ alone may be a provider's own."""


def openai(name: str) -> Model:
    """OpenAI's API, as in `openai:gpt-4.1`."""
    return _chat(name, "openai")


def azure(name: str) -> Model:
    """Azure OpenAI, as in `azure:DEPLOYMENT@https://NAME.openai.azure.com/openai/v1/`."""
    return _chat(name, "azure")


def vllm(name: str) -> Model:
    """A vLLM server, as in `vllm:NAME@http://host:8000/v1`."""
    return _chat(name, "vllm")


def sglang(name: str) -> Model:
    """An SGLang server, as in `sglang:NAME@http://host:30000/v1`."""
    return _chat(name, "sglang")


def transformers(name: str) -> Model:
    """A server that `transformers serve` started, as in `transformers:FOLDER@http://host:8000/v1`."""
    return _chat(name, "transformers")


def compatible(name: str) -> Model:
    """Any other server with chat completions, as in `compatible:NAME@http://host:8000/v1`."""
    return _chat(name, "compatible")


def anthropic(name: str) -> Model:
    """Anthropic's API, as in `anthropic:claude-opus-4-8`."""
    return AnthropicModel(endpoint_of(name, "anthropic"))


def local(name: str) -> Model:
    """A checkpoint in this process by transformers, as in `local:FOLDER`."""
    return LocalModel(name)


def scripted(name: str) -> Model:
    """A JSON list of texts, played in order, as in `scripted:FILE.json`."""
    return scripted_from_file(Path(name))


def replay(name: str) -> Model:
    """A stored trajectory, played again, as in `replay:FILE.jsonl`."""
    return replay_from_file(Path(name))


def tiny(name: str = "") -> Model:
    """The small model that is bundled with Saccade; it takes no name."""
    if name:
        raise RegistryError(f"tiny is one model and takes no name, so not {name!r}; your own weights are local:FOLDER")
    return LocalModel(str(tiny_weights()))


def endpoint_of(name: str, provider: str = "compatible") -> Endpoint:
    """The endpoint that `NAME` or `NAME@http://address` means, behind `provider:`.

    Raises:
        SettingsError: the address has no scheme.
    """
    match = _ADDRESS.fullmatch(name)
    if match is None and (bare := _BARE_ADDRESS.fullmatch(name)):
        right = f"{bare['model']}@http://{bare['host']}{bare['path'] or '/v1'}"
        raise SettingsError(f"{provider}:{name} names an address without http:// or https://. Write {provider}:{right}")
    return Endpoint(match["model"], base_url=match["url"]) if match else Endpoint(name)


def _chat(name: str, server: str) -> Model:
    return OpenAIModel(endpoint_of(name, server), server=server)
