"""Models by their name on a command line: `provider:name` or `provider:name@address`, or code of the user's own.

    openai:gpt-4.1                              azure:DEPLOYMENT@https://NAME.openai.azure.com/openai/v1/
    anthropic:claude-opus-4-8                   compatible:NAME@http://host:8000/v1
    gemini:gemini-3-flash                       responses:gpt-5.4
    vllm:Qwen/Qwen2.5-VL-7B-Instruct@http://host:8000/v1        sglang:NAME@http://host:30000/v1
    openai:gpt-4.1@FILE.json                    (address and key as `saccade.models.endpoint` reads them)
    transformers:FOLDER@http://host:8000/v1     (what `transformers serve` serves)
    local:FOLDER                                local:Qwen/Qwen2.5-VL-7B-Instruct
    scripted:FILE.json                          replay:FILE.jsonl
    tiny                                        (the weights that come with Saccade; needs no name)
    my_model.py:MyModel                         my_model.py:load@NAME

A provider is one `Provider` object, or a plain function or class that makes a model from the text behind its colon
(the user's own: behind the `@`, or a ready model). Packages add providers by the entry point group `saccade.models`.
Client packages are imported when a model is made. Whether the provider knows the model shows when it is asked.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from saccade.core import registry
from saccade.core.registry import Registry, all_of, did_you_mean, has_members, missing_plugin
from saccade.core.retry import RetryPolicy
from saccade.core.seam import has_methods, seam
from saccade.errors import MissingPluginError, RegistryError, SettingsError
from saccade.models.base import Model
from saccade.record.trajectory import Sampling

if TYPE_CHECKING:
    from saccade.models.failures import ErrorWords

_FIXED: Final = frozenset({"model", "messages", "input", "contents", "system", "tools", "stop", "stream", "n"})
"""Fields of requests that no `extra_body` may replace."""
_USERINFO: Final = re.compile(r"@https?://[^/?#\s]*@")


def _only_for_plans(provider: Any, name: str) -> Model:
    raise RegistryError(
        f"{provider.name} is made for each task of an evaluation: saccade eval SOURCE --model {provider.name}."
    )


@dataclass(frozen=True, kw_only=True)
class Provider:
    """One provider. What is not known keeps its default, and is then not refused before it is tried."""

    name: str
    """As it is recorded, and as its prices and its key are found."""
    description: str = ""
    """A line for `saccade list models`."""
    example: str = ""
    """A model of it as a user writes it, for messages and help; empty to leave it out there."""
    make: Callable[[Any, str], Model] = _only_for_plans
    """Make a model from this provider and the text behind the colon; not needed with `for_plan`."""
    takes_name: bool = True
    """Whether text must follow the colon."""
    for_plan: Callable[[Any], Model] | None = None
    """Make a model for the `Plan` of one task of an evaluation: for baselines, which look at the task."""
    checkpoint: Callable[[str], str] | None = None
    """Return the folder or hub name of a model's weights, for training; None if there are none."""
    refusal: Callable[[str, Sequence[str]], str] | None = None
    """Why it cannot answer a question with these choices, as a sentence; empty if it can. Asked where no model is named
    and this is the default. Raises `UnavailableError` if it cannot be used at all."""

    key_names: tuple[str, ...] = ()
    """Environment variables that hold its key, after `SACCADE_<NAME>_API_KEY`."""
    needs_key: bool = False
    telemetry_name: str = ""
    """Its name in OpenTelemetry's conventions; empty for `name`."""
    price_table: str = ""
    """Its table in a file of prices; empty for that of its name."""
    errors: ErrorWords | None = None
    """How its failures are told apart by their words; None for the common ones."""

    samples: bool = True
    """Sampling settings change its replies."""
    unknown_sampling: frozenset[str] = frozenset()
    """Sampling settings that its API does not have."""
    reasoning: Callable[[str, Sampling], object] | None = None
    """The fields that tell a model, by the text after the colon, how much to think. Raises `SettingsError` where it
    cannot be told so; None: no model of it can."""
    reasoning_says: Callable[[str, Sampling], str] | None = None
    """What a user should know of that setting; empty if there is nothing."""
    takes_extra: bool = False
    """Fields and headers of a user's own can be sent along."""
    stop_strings: str = ""
    """Who finds stop strings, for a reader."""
    token_ids: bool = False
    """It gives ids and log-probabilities of what was sampled."""
    function_calls: bool = True
    """It has function calling of its own."""
    result_pictures: bool = False
    """Results of such calls can hold pictures; otherwise a user message holds them."""
    hosted_code: bool = False
    """It can run the model's code in a sandbox of its own (the dialect `hosted`)."""
    no_hosted_code: str = ""
    """Regular expression for names of its models that cannot have code run there; empty if none is known."""
    videos: bool = False
    """It takes videos."""
    video_frames: bool = False
    """It can be told which frames of a video are shown."""
    continues: bool | None = None
    """It continues an assistant's message; None: that depends on the model, and shows when it is asked."""

    dialect: str = ""
    """Which dialect suits its models; empty if that is not known."""
    dialect_reason: str = ""
    """Why, as the end of a sentence."""
    learned_dialect: Callable[[str], str] | None = None
    """The dialect that the model of that name was trained in or recorded with; empty if that is not known."""

    @property
    def prices(self) -> str:
        """Its table in a file of prices."""
        return self.price_table or self.name

    def runs_code(self, model: str) -> bool:
        """Say whether the provider's sandbox runs code of this model, as far as known."""
        return self.hosted_code and not (self.no_hosted_code and re.match(self.no_hosted_code, model))

    def own_dialect(self, model: str) -> str:
        """Return the dialect that a model of this provider is known to use; empty if unknown."""
        return self.learned_dialect(model) if self.learned_dialect is not None else ""


_members = has_members(("name", "complete", "close"))
_model_lacks = all_of(_members, has_methods(Model))


def _lacks(value: object) -> str:
    known = isinstance(value, Provider) or callable(value) or not _members(value)
    return "" if known else _members(value)


DEFAULT: Final = "tiny"
"""The provider that answers where no model is named and it knows the kind of question."""
PROVIDERS: Final = Registry[object](
    "models",
    {
        "anthropic@1": "saccade.models.providers.anthropic:ANTHROPIC [models]",
        "azure@1": "saccade.models.providers.openai:AZURE [models]",
        "compatible@1": "saccade.models.providers.openai:COMPATIBLE [models]",
        "gemini@1": "saccade.models.providers.gemini:GEMINI [models]",
        "local@1": "saccade.tokens.local_model:LOCAL [local]",
        "openai@1": "saccade.models.providers.openai:OPENAI [models]",
        "replay@1": "saccade.models.replay:REPLAY",
        "responses@1": "saccade.models.providers.responses:RESPONSES [models]",
        "scripted@1": "saccade.models.scripted:SCRIPTED",
        "sglang@1": "saccade.models.providers.openai:SGLANG [models]",
        "transformers@1": "saccade.models.local_text:TRANSFORMERS [models]",
        "vllm@1": "saccade.models.providers.openai:VLLM [models]",
    },
    _lacks,
)


def load_model(spec: str, retry: RetryPolicy | None = None) -> Model:
    """Make the model that `spec` names; `retry` replaces its retry policy, if it has one.

    Raises:
        RegistryError: the provider is unknown (suggests the nearest), no name follows it, or what it makes is no model.
        UnavailableError: its client package, or the plug-in that it is in, is not installed.
        ModelRefusedError: it needs a key and there is none in the environment.
        SettingsError: it needs an address, its address holds a password, or its file cannot be used.
    """
    name, rest, entry = _find(spec)
    if entry is None:
        raise _unknown(spec, name, is_code=PROVIDERS.code(spec) is not None)
    model = _made(entry, name, rest) if isinstance(entry, Provider) or _members(entry) else entry
    if model is entry and rest:
        raise RegistryError(f"{name} is a ready model, so nothing may follow it: leave out {rest!r}.")
    lack = _model_lacks(model)
    if lack:
        raise RegistryError(f"{name} made no model: {lack.replace('it is', 'it gave', 1)}. See docs/extending.md.")
    if retry is not None and model is not entry and isinstance(getattr(model, "retry", None), RetryPolicy):
        setattr(model, "retry", retry)  # noqa: B010
    return cast(Model, model)


def provider_of(spec: str) -> Provider:
    """Return the provider of the model `spec`; one with defaults only for unknown names and plain code. Raises
    `RegistryError` if the user's own code cannot be loaded, `SettingsError` if its address holds a password.
    """
    name, _, entry = _find(spec)
    return entry if isinstance(entry, Provider) else Provider(name=name.partition(":")[0], make=_nothing)


def checkpoint_named(model: str) -> str:
    """Return the folder or hub name of the weights of `model`, such as `tiny` or `local:FOLDER`.

    Raises:
        MissingPluginError: the provider is in a plug-in that is not installed.
        UnavailableError: what it needs to have weights is not installed.
    """
    name, rest = PROVIDERS.split(model)
    if missing := missing_plugin(PROVIDERS.kind, model, PROVIDERS.entries):
        raise MissingPluginError(missing)
    if not PROVIDERS.has(name):
        return model
    provider = PROVIDERS.load(name)
    if not isinstance(provider, Provider) or provider.checkpoint is None or (provider.takes_name and not rest):
        return model
    return provider.checkpoint(rest or "")


def _nothing(provider: Provider, name: str) -> Model:
    raise RegistryError(f"there is no provider of models {provider.name!r}.")


def _find(spec: str) -> tuple[str, str | None, object]:
    """Split `spec` into a provider and the text after it, and load the provider; None if there is none.

    `opnai:o3` has the form `module:attribute` of code, and names no provider if there is no such module.
    """
    check_no_secret(spec)
    name, rest = PROVIDERS.split(spec)
    code = PROVIDERS.code(spec)
    exists = PROVIDERS.has(name) if code is None else code.is_file or registry.findable(code)
    return name, rest, PROVIDERS.load(name) if exists else None


_BARE: Final = (
    (r"openai/(?P<name>.+)", "openai:{}"),
    (r"anthropic/(?P<name>.+)", "anthropic:{}"),
    (r"google/(?P<name>gemini.+)", "gemini:{}"),
    (r"(?P<name>(gpt|chatgpt|codex)-.+|o\d(-.+)?)", "openai:{}"),
    (r"(?P<name>claude-.+)", "anthropic:{}"),
    (r"(models/)?(?P<name>(gemini|learnlm)-.+)", "gemini:{}"),
    (r"(?P<name>[\w.-]+/[\w.-]+)", "local:{0} (in this process) or vllm:{0}@http://host:8000/v1 (a server)"),
    (
        r"(?P<name>(qwen|qvq|internvl|glm|gemma|llava|pixtral|mistral|deepseek|kimi|llama|minicpm|molmo).*)",
        "vllm:{}@http://host:8000/v1",
    ),
)
"""Names of models without their provider, and how they are written with it."""


def _with_provider(spec: str) -> str:
    """Return the name of a model that was written without its provider, with it; empty if it looks like none."""
    model, at, address = spec.partition("@http")
    for pattern, written in _BARE:
        if match := re.fullmatch(pattern, model, re.IGNORECASE):
            name = match["name"]
            return f"vllm:{name}@http{address}" if at else written.format(name)
    return ""


def _unknown(spec: str, name: str, *, is_code: bool) -> RegistryError:
    provider, missing = name.partition(":")[0], ""
    if not is_code and (written := _with_provider(spec)):
        return RegistryError(f"there is no provider of models {provider!r}: {spec} is a model. Write {written}.")
    if name.endswith(".py"):
        hint = f"Of a file, name what is in it: {name}:NAME."
    elif name.endswith(".json"):
        hint = f"A file can hold a server's address and key. Write openai:NAME@{name}"
    else:
        missing = missing_plugin(PROVIDERS.kind, provider, PROVIDERS.entries)
        hint = missing or did_you_mean(provider, PROVIDERS.names())
    no_module = " and no such module" if is_code else ""
    error = MissingPluginError if missing else RegistryError
    return error(f"there is no provider of models {provider!r}{no_module}. {hint}".rstrip())


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
    return seam(provider, object)(*given)


def _unnamed(name: str) -> RegistryError:
    example = f"{name}:NAME, as in openai:gpt-4.1" if PROVIDERS.has(name) else f"{name}@NAME"
    return RegistryError(f"{name!r} names no model: write {example}")


def unknown_sampling(model: str) -> frozenset[str]:
    """Return the sampling settings that the API of the provider of `model` (`provider:name`) does not have."""
    return provider_of(model).unknown_sampling


def unheard_sampling(model: str, sampling: Sampling) -> str:
    """Return a sentence about settings that change nothing, for a provider that does not sample; else an empty text."""
    provider = provider_of(model)
    given = [f"sampling.{name}" for name, value in sampling.model_dump().items() if value is not None]
    if not given or provider.samples:
        says = provider.reasoning_says if sampling.reasoning is not None else None
        return says(model.partition(":")[2], sampling) if says is not None else ""
    return f"{provider.name} does not sample: {' and '.join(given)} change{'s' * (len(given) == 1)} nothing."


def check_sampling(model: str, sampling: Sampling) -> None:
    """Raise `SettingsError` for sampling settings that the provider would refuse in every request."""
    provider = provider_of(model)
    given = {name for name in provider.unknown_sampling if getattr(sampling, name) is not None}
    if given:
        names = " and ".join(f"sampling.{name}" for name in sorted(given))
        raise SettingsError(f"{provider.name} does not know {names}. Leave it out, or use another model.")
    if not provider.samples:
        return
    if sampling.reasoning is not None:
        if provider.reasoning is None:
            raise SettingsError(f"{provider.name} cannot be told how much to think. Leave sampling.reasoning out.")
        provider.reasoning(model.partition(":")[2], sampling)
    extra = [name for name in ("extra_body", "extra_headers") if getattr(sampling, name) is not None]
    if extra and not provider.takes_extra:
        raise SettingsError(
            f"{provider.name} sends no request that sampling.{extra[0]} could be added to. Leave it out."
        )
    if fixed := sorted(_FIXED & (sampling.extra_body or {}).keys()):
        raise SettingsError(f"sampling.extra_body: {' and '.join(fixed)} is set by Saccade. Leave it out.")


def check_no_secret(model: str) -> None:
    """Raise `SettingsError` if the address in a model's name holds a user or a password."""
    if _USERINFO.search(model):
        raise SettingsError(
            f"the address in {model.partition('@')[0]}@... holds a user or a password, and names of models are "
            "recorded and shown. Leave it out; a key goes into the provider's variable or a file (docs/models.md)."
        )
