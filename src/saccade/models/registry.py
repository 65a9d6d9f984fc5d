"""Models by their name on a command line: `provider:name` or `provider:name@address`, or code of the user's own.

    openai:gpt-4.1                              azure:DEPLOYMENT@https://NAME.openai.azure.com/openai/v1/
    anthropic:claude-opus-4-8                   compatible:NAME@http://host:8000/v1
    vllm:Qwen/Qwen2.5-VL-7B-Instruct@http://host:8000/v1        sglang:NAME@http://host:30000/v1
    transformers:FOLDER@http://host:8000/v1     (what `transformers serve` serves)
    local:FOLDER                                local:Qwen/Qwen2.5-VL-7B-Instruct
    scripted:FILE.json                          replay:FILE.jsonl
    tiny                                        (the weights that come with Saccade; needs no name)
    my_model.py:MyModel                         my_model.py:load@NAME

A provider is a function or class that makes a model of the text behind its colon; the user's own gets the text behind
the `@`, or nothing, and may be a ready model too. Further packages add providers by the entry point group
`saccade.models`. A client package is imported when a model that needs it is made. Whether the provider knows the model
shows only when it is asked.
"""

from __future__ import annotations

import inspect
from typing import Final, cast

from saccade.errors import RegistryError
from saccade.models.base import Model
from saccade.record.own_code import findable
from saccade.record.registry import Registry, has_members
from saccade.record.suggest import did_you_mean

_HERE = "saccade.models.providers"

_members = has_members(("name", "complete", "close"))


def _lacks(found: object) -> str:
    return "" if callable(found) or not _members(found) else _members(found)


PROVIDERS: Final = Registry[object](
    "models",
    {
        "anthropic@1": f"{_HERE}:anthropic [models]",
        "azure@1": f"{_HERE}:azure [models]",
        "compatible@1": f"{_HERE}:compatible [models]",
        "local@1": f"{_HERE}:local [local]",
        "openai@1": f"{_HERE}:openai [models]",
        "replay@1": f"{_HERE}:replay",
        "scripted@1": f"{_HERE}:scripted",
        "sglang@1": f"{_HERE}:sglang [models]",
        "tiny@1": f"{_HERE}:tiny [local]",
        "transformers@1": f"{_HERE}:transformers [models]",
        "vllm@1": f"{_HERE}:vllm [models]",
    },
    _lacks,
)


def load_model(wanted: str) -> Model:
    """The model that `wanted` names.

    Raises:
        RegistryError: the provider is unknown (suggests the nearest), no name follows it, or what it makes is no model.
        UnavailableError: its client package is not installed.
        ModelRefusedError: it needs a key and there is none in the environment.
        SettingsError: it needs an address, or its file cannot be used.
    """
    name, rest = PROVIDERS.split(wanted)
    code = PROVIDERS.code(wanted)
    slip = code is not None and not code.is_file and not findable(code)  # `opnai:o3` has the form of module:attribute
    if slip or (code is None and not PROVIDERS.has(name)):
        provider = name.partition(":")[0]
        hint = did_you_mean(provider, PROVIDERS.names())
        if name.endswith(".py"):
            hint = f"Of a file, name what is in it: {name}:NAME."
        raise RegistryError(
            f"there is no provider of models {provider!r}{' and no such module' * slip}. {hint}".rstrip()
        )
    found = PROVIDERS.load(name)
    model = _made(found, name, rest) if _members(found) else found
    if model is found and rest:
        raise RegistryError(f"{name} is a ready model, so nothing may follow it: leave out {rest!r}.")
    lack = _members(model)
    if lack:
        raise RegistryError(f"{name} made no model: {lack.replace('it is', 'it gave', 1)}. See docs/extending.md.")
    return cast(Model, model)


def _made(provider: object, name: str, rest: str | None) -> object:
    assert callable(provider), "the registry has checked it"
    given = (rest,) if rest else ()
    try:
        inspect.signature(provider).bind(*given)
    except TypeError as error:
        if rest:
            raise RegistryError(f"{name} cannot be made from {rest!r}: {error}.") from error
        example = f"{name}:NAME, as in openai:gpt-4.1" if PROVIDERS.has(name) else f"{name}@NAME"
        raise RegistryError(f"{name!r} names no model: write {example}") from error
    return provider(*given)
