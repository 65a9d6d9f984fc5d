"""Models by their name on a command line: `provider:name` or `provider:name@address`, or code of the user's own.

    openai:gpt-4.1                              azure:DEPLOYMENT@https://NAME.openai.azure.com/openai/v1/
    anthropic:claude-opus-4-8                   compatible:NAME@http://host:8000/v1
    gemini:gemini-3-flash                       responses:gpt-5.4
    vllm:Qwen/Qwen2.5-VL-7B-Instruct@http://host:8000/v1        sglang:NAME@http://host:30000/v1
    openai:gpt-4.1@FILE.json                    (address and key as `saccade.models.endpoint_file` reads them)
    transformers:FOLDER@http://host:8000/v1     (what `transformers serve` serves)
    local:FOLDER                                local:Qwen/Qwen2.5-VL-7B-Instruct
    scripted:FILE.json                          replay:FILE.jsonl
    tiny                                        (the weights that come with Saccade; needs no name)
    my_model.py:MyModel                         my_model.py:load@NAME

What is known of a provider is one object in one file, see `saccade.models.provider`. A plain function or class that
makes a model of the text behind its colon is one too; the user's own gets the text behind the `@`, or nothing, and may
be a ready model as well. Further packages add providers by the entry point group `saccade.models`. A client package is
imported when a model that needs it is made. Whether the provider knows the model shows only when it is asked.
"""

from __future__ import annotations

import inspect
from typing import Final, cast

from saccade.core.plugins import missing_plugin
from saccade.core.retry import RetryPolicy
from saccade.errors import RegistryError, UnavailableError
from saccade.models.addresses import check_no_secret
from saccade.models.base import Model
from saccade.models.provider import Provider
from saccade.record import own_code
from saccade.record.registry import Registry, has_members
from saccade.record.suggest import did_you_mean


_members = has_members(("name", "complete", "close"))


def _lacks(value: object) -> str:
    known = isinstance(value, Provider) or callable(value) or not _members(value)
    return "" if known else _members(value)


DEFAULT: Final = "tiny"
"""The provider that answers where no model is named and it knows the kind of question."""
PROVIDERS: Final = Registry[object](
    "models",
    {
        "anthropic@1": "saccade.models.providers.anthropic:ANTHROPIC [models]",
        "azure@1": "saccade.models.providers.azure:AZURE [models]",
        "compatible@1": "saccade.models.providers.compatible:COMPATIBLE [models]",
        "gemini@1": "saccade.models.providers.gemini:GEMINI [models]",
        "local@1": "saccade.generate.providers:LOCAL [local]",
        "openai@1": "saccade.models.providers.openai:OPENAI [models]",
        "replay@1": "saccade.models.providers.replay:REPLAY",
        "responses@1": "saccade.models.providers.responses:RESPONSES [models]",
        "scripted@1": "saccade.models.providers.scripted:SCRIPTED",
        "sglang@1": "saccade.models.providers.sglang:SGLANG [models]",
        "transformers@1": "saccade.models.providers.transformers:TRANSFORMERS [models]",
        "vllm@1": "saccade.models.providers.vllm:VLLM [models]",
    },
    _lacks,
)


def load_model(spec: str, retry: RetryPolicy | None = None) -> Model:
    """Make the model that `spec` names; its requests are tried as `retry` says if it has such a policy.

    Raises:
        RegistryError: the provider is unknown (suggests the nearest), no name follows it, or what it makes is no model.
        UnavailableError: its client package, or the plug-in that it is in, is not installed.
        ModelRefusedError: it needs a key and there is none in the environment.
        SettingsError: it needs an address, its address holds a password, or its file cannot be used.
    """
    check_no_secret(spec)
    name, rest = PROVIDERS.split(spec)
    code = PROVIDERS.code(spec)
    slip = _is_slip(code)
    if slip or (code is None and not PROVIDERS.has(name)):
        provider = name.partition(":")[0]
        missing = missing_plugin(PROVIDERS.kind, provider, PROVIDERS.entries)
        hint = missing or did_you_mean(provider, PROVIDERS.names())
        if name.endswith(".py"):
            hint = f"Of a file, name what is in it: {name}:NAME."
        elif name.endswith(".json"):
            hint = f"A file can hold a server's address and key. Write openai:NAME@{name}"
        raise RegistryError(
            f"there is no provider of models {provider!r}{' and no such module' * slip}. {hint}".rstrip()
        )
    entry = PROVIDERS.load(name)
    model = _made(entry, name, rest) if isinstance(entry, Provider) or _members(entry) else entry
    if model is entry and rest:
        raise RegistryError(f"{name} is a ready model, so nothing may follow it: leave out {rest!r}.")
    lack = _members(model)
    if lack:
        raise RegistryError(f"{name} made no model: {lack.replace('it is', 'it gave', 1)}. See docs/extending.md.")
    if retry is not None and model is not entry and isinstance(getattr(model, "retry", None), RetryPolicy):
        setattr(model, "retry", retry)  # noqa: B010
    return cast(Model, model)


def provider_of(spec: str) -> Provider:
    """Find what is known of the provider of the model that `spec` names: nothing of an unknown one, or of plain code.

    Raises:
        RegistryError: the user's own code cannot be loaded.
        SettingsError: its address holds a password.
    """
    check_no_secret(spec)
    name, _ = PROVIDERS.split(spec)
    code = PROVIDERS.code(spec)
    entry: object = None
    if (code is not None and not _is_slip(code)) or (code is None and PROVIDERS.has(name)):
        entry = PROVIDERS.load(name)
    return entry if isinstance(entry, Provider) else Provider(name=name.partition(":")[0], make=_nothing)


def checkpoint_named(model: str) -> str:
    """The folder or hub name of the weights that `model` names: that of a provider such as `tiny` or `local:FOLDER`.

    Raises:
        UnavailableError: the provider is in a plug-in, or has weights, that are not installed.
    """
    name, rest = PROVIDERS.split(model)
    if missing := missing_plugin(PROVIDERS.kind, model, PROVIDERS.entries):
        raise UnavailableError(missing)
    if not PROVIDERS.has(name):
        return model
    provider = PROVIDERS.load(name)
    if not isinstance(provider, Provider) or provider.checkpoint is None or (provider.takes_name and not rest):
        return model
    return provider.checkpoint(rest or "")


def _nothing(provider: Provider, name: str) -> Model:
    raise RegistryError(f"there is no provider of models {provider.name!r}.")


def _is_slip(code: own_code.Reference | None) -> bool:
    """Whether a name only has the form of code, as `opnai:o3` has that of module:attribute."""
    return code is not None and not code.is_file and not own_code.findable(code)


def _made(provider: object, name: str, rest: str | None) -> object:
    if isinstance(provider, Provider):
        if provider.takes_name and not rest:
            raise _unnamed(name)
        return provider.make(provider, rest or "")
    assert callable(provider), "the registry has checked it"
    given = (rest,) if rest else ()
    try:
        inspect.signature(provider).bind(*given)
    except TypeError as error:
        if rest:
            raise RegistryError(f"{name} cannot be made from {rest!r}: {error}.") from error
        raise _unnamed(name) from error
    return provider(*given)


def _unnamed(name: str) -> RegistryError:
    example = f"{name}:NAME, as in openai:gpt-4.1" if PROVIDERS.has(name) else f"{name}@NAME"
    return RegistryError(f"{name!r} names no model: write {example}")
