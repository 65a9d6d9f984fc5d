"""Settings that every command with episodes shares: how a model is spoken to, with what limits, and where code runs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from pydantic import Field

from saccade.core.retry import DEFAULT_RETRY, RetryPolicy
from saccade.core.settings import Settings
from saccade.dialects.base import Dialect, ToolList, load_dialect
from saccade.dialects.boxes import BoxSpace
from saccade.episode.drive import equipped
from saccade.errors import SettingsError
from saccade.media.decode import MediaSettings
from saccade.record.trajectory import EpisodeLimits, Sampling
from saccade.sandbox.base import MIB, Limits, Sandbox
from saccade.sandbox.registry import has_own_limits
from saccade.sandbox.registry import sandbox_at as sandbox_at
from saccade.tasks.media import FrameSettings
from saccade.tools.setup import DEFAULT_CALLS, ToolCallSettings

if TYPE_CHECKING:
    from saccade.tools.toolbox import Toolbox

# Limits of the sandbox's sessions that a user sets in place of a dialect's, as `session.wall_seconds=60`.
#
# Those of a remote sandbox are its server's; of these only the wall time holds there.

D = TypeVar("D", bound=Dialect)


class SessionLimits(Settings):
    """Those that are set stand in place of the dialect's; see `saccade.sandbox.base.Limits`."""

    wall_seconds: float | None = Field(None, gt=0, le=86_400)
    """Longest time of one call. Unless it is set too, `cpu_seconds` is at least as long."""
    cpu_seconds: int | None = Field(None, gt=0, le=86_400)
    memory_bytes: int | None = Field(None, ge=64 * MIB)
    picture_pixels: int | None = Field(None, ge=1024)
    """Most pixels of a picture that a call gives back; a larger one is scaled down. Dialects have 12.8 million."""
    file_bytes: int | None = Field(None, ge=0)
    """Largest file, a video among them. Unless it is set too, `workspace_bytes` has room for one, and as much as ever
    next to it."""
    workspace_bytes: int | None = Field(None, ge=MIB)

    def applied(self, dialect: D, sandbox: str = "local") -> D:
        """Return the dialect with these limits for its sessions in `sandbox`. Raises `SettingsError` if a limit is set
        that a remote sandbox decides itself, or the dialect's cannot be replaced.
        """
        overrides = {name: value for name, value in self.model_dump().items() if value is not None}
        if not overrides:
            return dialect
        if has_own_limits(sandbox) and overrides.keys() != {"wall_seconds"}:
            name = min(overrides.keys() - {"wall_seconds"})
            raise SettingsError(
                f"session.{name} cannot be set for the sandbox at {sandbox}: its limits are its server's. "
                "Start `saccade sandbox serve` with --settings that say so."
            )
        if "sandbox" not in getattr(dialect, "__dataclass_fields__", {}):
            raise SettingsError(f"dialect {dialect.id} fixes the limits of its sessions. Leave out session.*.")
        changed: D = replace(cast(Any, dialect), sandbox=self.over(dialect.sandbox))
        return changed

    def over(self, limits: Limits) -> Limits:
        overrides = {name: value for name, value in self.model_dump().items() if value is not None}
        if self.wall_seconds is not None:
            overrides.setdefault("cpu_seconds", max(limits.cpu_seconds, math.ceil(self.wall_seconds)))
        if self.file_bytes is not None:
            overrides.setdefault("workspace_bytes", max(limits.workspace_bytes, self.file_bytes + 128 * MIB))
        return Limits.model_validate({**limits.model_dump(), **overrides})


class PromptSettings(Settings):
    """What a dialect says and offers."""

    prompt_file: str = ""
    """Texts in place of the dialect's own, as `saccade.dialects.prompt_texts` reads them."""
    prompt_names: dict[str, str] = Field(default_factory=dict)
    """Place of a text (`system`, `user`, ...) -> its name in the prompt file, where that has another; no other text of
    the file is used then."""
    tools: tuple[str, ...] = ()
    """Typed tools to offer, for a dialect whose models call tools; none: see `saccade.episode.drive`."""
    tool_calls: ToolCallSettings = DEFAULT_CALLS
    """How long a call of a typed tool may take, and in how many processes they run."""
    tool_list: ToolList = ""
    """How the prompt lists them: `short` or `schema`; empty: as the dialect, or the prompt file, has it."""
    boxes: Literal["", "full", "shown", "thousand"] = ""
    """What the model's boxes count: pixels of the `full` picture, pixels as `shown` (Qwen2.5-VL), or 0 to a `thousand`
    along each side (Qwen3-VL, InternVL); empty: as the dialect has it. See `saccade.dialects.boxes`."""
    tool_hints: bool = False
    """Whether the prompt also says which tools suit which questions (`saccade.dialects.calls`)."""

    def equipped(self, dialect: Dialect) -> tuple[Dialect, Toolbox | None]:
        """Return the dialect with the user's prompt and tools, and the toolbox.

        Raises `SettingsError`: it takes no prompt, no tools, or no such boxes; `PromptFileError`: the prompt file
        cannot be used; `RegistryError`: there is no such tool.
        """
        if self.tool_list:
            from saccade.dialects.calls import with_tool_list

            dialect = with_tool_list(dialect, self.tool_list)
        if self.boxes:
            dialect = dialect.with_boxes(BoxSpace(self.boxes))
        if self.prompt_names and not self.prompt_file:
            raise SettingsError("prompt_names are names in a prompt file, and none is given. Name it in prompt_file.")
        if self.prompt_file:
            from saccade.dialects.prompt_file import read_prompt_file

            dialect = dialect.with_prompts(read_prompt_file(Path(self.prompt_file), self.prompt_names))
        offering, tools = equipped(dialect, self.tools, self.tool_calls)
        if self.tool_hints:
            from saccade.dialects.calls import hinted

            offering = hinted(offering)
        return offering, tools


class SpeechSettings(PromptSettings):
    """What a dialect says and offers, and where its code runs: the same for every command with episodes."""

    session: SessionLimits = SessionLimits()
    """Limits of the sandbox's sessions in place of the dialect's."""
    sandbox: str = "local"
    """`local`, addresses of `saccade sandbox serve` with commas between them, or another provider; `saccade list
    sandboxes` names all."""
    media: MediaSettings = MediaSettings()
    """How large pictures may be, and how large they are shown."""

    def prepared(self, dialect: Dialect) -> tuple[Dialect, Toolbox | None]:
        """Equip like `equipped`, with the user's limits of sessions too; `SettingsError` if they cannot be set."""
        return self.equipped(self.session.applied(dialect, self.sandbox))


class EpisodeSettings(SpeechSettings):
    """Everything but the task that decides how an episode is played."""

    model: str
    """As `saccade.models.registry` names it."""
    dialect: str = ""
    """Empty: the one that suits the model, see `saccade.episode.ask`."""
    sampling: Sampling = Sampling()
    limits: EpisodeLimits = EpisodeLimits()
    """Those that are set stand in place of the dialect's."""
    frames: FrameSettings = FrameSettings()
    """Videos shown as frames that were sampled before; see `saccade.tasks.media`."""
    retry: RetryPolicy = DEFAULT_RETRY
    """How often a request to a model (a judge too) is tried, and for how long."""

    def spoken(self, dialect: Dialect | None = None) -> tuple[Dialect, Toolbox | None]:
        """Do as `prepared`, for the dialect given or else the one named. Raises `RegistryError` for a name too."""
        return self.prepared(dialect or load_dialect(self.dialect))

    def provider(self, dialect: Dialect) -> Sandbox:
        """Return the sandbox, with the limits of the dialect; those of a remote one are its server's."""
        return sandbox_at(self.sandbox, dialect.sandbox)
