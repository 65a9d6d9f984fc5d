"""Which dialect suits a model, where nobody names one; and which the model cannot speak at all.

A provider says which dialect suits its models; a checkpoint of Saccade's own knows what it learned, and a replayed
episode what was spoken in it. Of all others nothing is known: they get `pyvision`, whose prompt explains everything,
and a line says so.
"""

from __future__ import annotations

from typing import Final, TypeVar

from saccade.dialects.base import Dialect
from saccade.dialects.registry import DIALECTS
from saccade.episode.settings import EpisodeSettings
from saccade.errors import SettingsError
from saccade.models.provider import Provider
from saccade.models.registry import PROVIDERS, provider_of
from saccade.models.sampling import unheard_sampling
from saccade.record.execution import Execution
from saccade.record.status import Status
from saccade.tasks.frames import FrameSettings

DEFAULT: Final = "pyvision"

PRICED: Final = "Dollars are those of tokens alone; what the provider takes for its sandbox is not among them."

_NO_FRAMES: Final = FrameSettings()

S = TypeVar("S", bound=EpisodeSettings)


def suited(settings: S) -> tuple[S, tuple[str, ...]]:
    """The settings with a dialect, the one that suits the model if they name none, and what a person should know.

    Raises:
        RegistryError: a checkpoint or a stored episode names code as its dialect; nothing that is stored is run.
    """
    made, says = _spoken(settings)
    if family(made.dialect) == "hosted":
        says = f"{says} {PRICED}".lstrip()
    return made, tuple(filter(None, (says, unheard_sampling(settings.model, settings.sampling))))


def _spoken(settings: S) -> tuple[S, str]:
    own = own_dialect(settings.model)
    if settings.dialect:
        if own and family(own) != family(settings.dialect):
            learned = f"{settings.model} learned the dialect {own}"
            return settings, f"{learned} and is asked in {settings.dialect}, which it may not know."
        return settings, ""
    provider = provider_of(settings.model)
    if own:
        DIALECTS.check_recorded(own)
        chosen, why = own, "which it learned"
    elif provider.dialect:
        chosen, why = provider.dialect, provider.dialect_reason
    else:
        chosen, why = DEFAULT, "the default, for it is not known what it learned; --dialect names another"
    says = f"{settings.model} is asked in the dialect {chosen}: {why}."
    return settings.model_copy(update={"dialect": chosen}), says


def own_dialect(model: str) -> str:
    """The dialect that the model of that name is known to speak; empty if that is not known."""
    return provider_of(model).own_dialect(PROVIDERS.split(model)[1] or "")


def check_speaks(model: str, dialect: Dialect, frames: FrameSettings = _NO_FRAMES) -> None:
    """Refuse what cannot work, whatever the model says; `frames` are those of videos.

    Raises:
        SettingsError: the dialect needs something that the model's backend does not have.
    """
    provider = provider_of(model)
    if frames.rate and provider.videos and not provider.video_frames and dialect.shows_videos:
        from saccade.models.pictures import frames_not_chosen

        raise SettingsError(f"{dialect.id} sends videos as such, and {frames_not_chosen(provider.name)}")
    if dialect.functions and not provider.function_calls:
        raise SettingsError(
            f"{dialect.id} speaks through an API's function calls, and {provider.name} has none. Leave "
            "--dialect out, or name one of text, as pyvision."
        )
    if dialect.provider_runs and not provider.runs_code(PROVIDERS.split(model)[1] or ""):
        raise SettingsError(
            f"{dialect.id} lets the provider's own sandbox run the code, and {_which(provider, model)}. Name "
            "another model of responses, anthropic or gemini, or a dialect whose code runs here."
        )
    if provider.continues is False and _continues(dialect):
        raise SettingsError(
            f"{dialect.id} lets the model continue its own message, and {provider.name} cannot. Use a vllm or sglang "
            "server, named so, or another dialect."
        )


def family(dialect: str) -> str:
    """The name of a dialect without its version and preset."""
    return dialect.partition(":")[0].partition("@")[0]


def _which(provider: Provider, model: str) -> str:
    return f"{model} cannot have that" if provider.hosted_code else f"{provider.name} has none"


def _continues(dialect: Dialect) -> bool:
    try:
        return dialect.observe(Execution(status=Status.OK), 1).message.role == "assistant"
    except ValueError:  # it has nothing to observe
        return False
