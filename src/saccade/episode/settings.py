"""Settings that every command with episodes shares: how a model is spoken to, with what limits, and where code runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from saccade.core.retry import DEFAULT_RETRY, RetryPolicy
from saccade.dialects.base import Dialect
from saccade.dialects.registry import load_dialect
from saccade.dialects.tool_list import ToolList, listing
from saccade.episode.equip import equipped
from saccade.episode.session_limits import SessionLimits
from saccade.errors import SettingsError
from saccade.media.settings import MediaSettings
from saccade.record.settings import Settings
from saccade.record.trajectory import EpisodeLimits, Sampling
from saccade.sandbox.base import Sandbox
from saccade.sandbox.registry import sandbox_at as sandbox_at
from saccade.tasks.frames import FrameSettings
from saccade.tools.settings import DEFAULT_CALLS, ToolCallSettings

if TYPE_CHECKING:
    from saccade.tools.toolbox import Toolbox


class PromptSettings(Settings):
    """What a dialect says and offers."""

    prompt_file: str = ""
    """Texts in place of the dialect's own, as `saccade.dialects.prompt_file` reads them."""
    prompt_names: dict[str, str] = Field(default_factory=dict)
    """Place of a text (`system`, `user`, ...) -> its name in the prompt file, where that has another; no other text of
    the file is used then."""
    tools: tuple[str, ...] = ()
    """Typed tools to offer, for a dialect whose models call tools; none: see `saccade.episode.equip`."""
    tool_calls: ToolCallSettings = DEFAULT_CALLS
    """How long a call of a typed tool may take, and in how many processes they run."""
    tool_list: ToolList = ""
    """How the prompt lists them: `short` or `schema`; empty: as the dialect, or the prompt file, has it."""
    tool_hints: bool = False
    """Whether the prompt also says which tools suit which questions (`saccade.dialects.tool_hints`)."""

    def equipped(self, dialect: Dialect) -> tuple[Dialect, Toolbox | None]:
        """The dialect with the user's prompt and tools, and the toolbox.

        Raises:
            SettingsError: it takes no prompt, or no tools.
            PromptFileError: the prompt file cannot be used.
            RegistryError: there is no such tool.
        """
        dialect = listing(dialect, self.tool_list)
        if self.prompt_names and not self.prompt_file:
            raise SettingsError("prompt_names are names in a prompt file, and none is given. Name it in prompt_file.")
        if self.prompt_file:
            from saccade.dialects.prompt_file import read_prompt_file

            dialect = dialect.with_prompts(read_prompt_file(Path(self.prompt_file), self.prompt_names))
        offering, tools = equipped(dialect, self.tools, self.tool_calls)
        if self.tool_hints:
            from saccade.dialects.tool_hints import hinted

            offering = hinted(offering)
        return offering, tools


class SpeechSettings(PromptSettings):
    """What a dialect says and offers, and where its code runs: the same for every command with episodes."""

    session: SessionLimits = SessionLimits()
    """Limits of the sandbox's sessions in place of the dialect's."""
    sandbox: str = "local"
    """`local`, addresses of `saccade sandbox serve` with commas between them, or another provider; `saccade list
    sandboxes` names all."""

    def prepared(self, dialect: Dialect) -> tuple[Dialect, Toolbox | None]:
        """As `equipped`, with the user's limits of sessions too; `SettingsError` where they cannot be set."""
        return self.equipped(self.session.applied(dialect, self.sandbox))


class EpisodeSettings(SpeechSettings):
    """Everything but the task that decides how an episode is played."""

    model: str
    """As `saccade.models.registry` names it."""
    dialect: str = ""
    """Empty: the one that suits the model, see `saccade.episode.suited`."""
    sampling: Sampling = Sampling()
    limits: EpisodeLimits = EpisodeLimits()
    """Those that are set stand in place of the dialect's."""
    media: MediaSettings = MediaSettings()
    """How large pictures may be, and how large they are shown."""
    frames: FrameSettings = FrameSettings()
    """Videos shown as frames that were sampled before; see `saccade.tasks.frames`."""
    retry: RetryPolicy = DEFAULT_RETRY
    """How often a request to a model (a judge too) is tried, and for how long."""

    def spoken(self, dialect: Dialect | None = None) -> tuple[Dialect, Toolbox | None]:
        """`prepared`, of the dialect given or else the one that is named. Raises `RegistryError` for a name too."""
        return self.prepared(dialect or load_dialect(self.dialect))

    def provider(self, dialect: Dialect) -> Sandbox:
        """The sandbox, with the limits of the dialect; those of a remote one are its server's."""
        return sandbox_at(self.sandbox, dialect.sandbox)
