"""What a server of the environment plays, and how many sessions it lends out."""

from __future__ import annotations

from pydantic import Field

from saccade.dialects.base import Dialect
from saccade.dialects.registry import load_dialect
from saccade.env.look_again import LookAgainEnv, LookAgainOptions
from saccade.episode.plan import limits_with
from saccade.episode.settings import SpeechSettings, sandbox_at
from saccade.media.store import MediaStore
from saccade.record.trajectory import EpisodeLimits


class OpenEnvSettings(SpeechSettings):
    """Everything that decides how the episodes of a server of the environment are played."""

    tasks: tuple[str, ...] = ("visual-search",)
    """Sources of tasks by name, as `saccade.env.LookAgainEnv` takes them."""
    dialect: str = "pyvision"
    """How the agent is spoken to."""
    rubric: str = ""
    """A reward preset; empty: right or wrong by the task's own grader."""
    limits: EpisodeLimits = EpisodeLimits()
    """Those that are set stand in place of the dialect's."""
    max_sessions: int = Field(default=32, ge=1)
    """Most sessions at once; a further one is refused."""
    idle_seconds: float = Field(default=1800.0, gt=0)
    """A session without a message for so long is closed."""
    send_trajectory: bool = False
    """Whether the last observation holds the whole record, the gold answer with it."""

    def environment(self, store: MediaStore) -> LookAgainEnv:
        """One environment, whose pictures go into `store`. Raises as `LookAgainEnv` does."""
        dialect = load_dialect(self.dialect)
        options: LookAgainOptions = {
            "rubric": self.rubric or None,
            "limits": limits_with(dialect.limits, **self.limits.model_dump()),
            "tools": self.tools,
            "tool_list": self.tool_list or None,
            "prompt_file": self.prompt_file or None,
            "prompt_names": self.prompt_names,
            "session": self.session,
        }
        if self.sandbox != "local":
            options["sandbox"] = lambda: sandbox_at(self.sandbox, dialect.sandbox)
        return LookAgainEnv(self.tasks, dialect, store, **options)

    def spoken(self) -> Dialect:
        """The dialect with the tools and limits of these settings."""
        return self.prepared(load_dialect(self.dialect))[0]
