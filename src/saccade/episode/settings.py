"""Settings that every command with episodes shares: how a model is spoken to, with what limits, and where code runs."""

from __future__ import annotations

from pathlib import Path

from saccade.dialects.base import Dialect
from saccade.dialects.prompt_file import Prompted, read_prompt_file
from saccade.dialects.registry import load_dialect
from saccade.episode.equip import equipped
from saccade.errors import SettingsError
from saccade.models.retry import DEFAULT_RETRY, RetryPolicy
from saccade.record.settings import Settings
from saccade.record.trajectory import EpisodeLimits, Sampling
from saccade.sandbox.base import Sandbox
from saccade.sandbox.limits import Limits
from saccade.tools.toolbox import Toolbox


class EpisodeSettings(Settings):
    """Everything but the task that decides how an episode is played."""

    model: str
    """As `saccade.models.registry` names it."""
    dialect: str = ""
    """Empty: the one that suits the model, see `saccade.episode.suited`."""
    prompt_file: str = ""
    sampling: Sampling = Sampling()
    limits: EpisodeLimits = EpisodeLimits()
    """Those that are set stand in place of the dialect's."""
    tools: tuple[str, ...] = ()
    """Typed tools to offer, for a dialect whose models call tools; none: see `saccade.episode.equip`."""
    sandbox: str = "local"
    """`local`, or the address of a `saccade sandbox serve`."""
    retry: RetryPolicy = DEFAULT_RETRY
    """How often a request to a model (a judge too) is tried, and for how long."""

    def spoken(self, dialect: Dialect | None = None) -> tuple[Dialect, Toolbox | None]:
        """The dialect (or the one given) with the user's prompt and tools, and the toolbox.

        Raises:
            SettingsError: it takes no prompt, or no tools.
            PromptFileError: the prompt file cannot be used.
            RegistryError: there is no such dialect or tool.
        """
        dialect = dialect or load_dialect(self.dialect)
        if self.prompt_file:
            if not isinstance(dialect, Prompted):
                raise SettingsError(f"dialect {dialect.id} has no prompt that a file could replace. Leave it out.")
            dialect = dialect.with_prompts(read_prompt_file(Path(self.prompt_file)))
        return equipped(dialect, self.tools)

    def provider(self, dialect: Dialect) -> Sandbox:
        """The sandbox, with the limits of the dialect; those of a remote one are its server's."""
        return sandbox_at(self.sandbox, dialect.sandbox)


def sandbox_at(where: str, limits: Limits) -> Sandbox:
    """The sandbox of this machine (`local`), or the one that is served at an address."""
    if where == "local":
        from saccade.sandbox.local import LocalSandbox

        return LocalSandbox(limits=limits)
    from saccade.sandbox.remote import RemoteSandbox

    return RemoteSandbox(where)
