"""What both of OpenAI's APIs say of an episode: usage, thoughts, and the field `saccade` of every answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel

from saccade.record.content import ImagePart
from saccade.record.trajectory import StopReason, Trajectory
from saccade.record.turn import Turn
from saccade.serve.agent_request import AgentQuestion
from saccade.serve.agents import ServedEpisode


class IgnoredFields(BaseModel):
    """Fields of a body that are taken and change nothing; the answer names those that were given."""

    parallel_tool_calls: bool | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    def ignored(self) -> tuple[str, ...]:
        """The names of those that were given."""
        given = self.model_fields_set
        return tuple(name for name in _IGNORED if name in given and getattr(self, name) is not None)


_IGNORED: Final = ("reasoning_effort", "reasoning", *IgnoredFields.model_fields)
"""Of both APIs."""


def thought(turn: Turn) -> str:
    """What the model wrote in a turn, with its function calls where an API gives them apart from the text."""
    calls = [
        json.dumps({"name": call.name, "arguments": dict(call.arguments)}, ensure_ascii=False) for call in turn.calls
    ]
    return "\n".join([*([turn.text] if turn.text else []), *calls])


def final_text(trajectory: Trajectory, stop: Sequence[str]) -> str:
    """The answer up to the first stop string; empty if there is none."""
    answer = trajectory.answer or ""
    ends = [at for text in stop if (at := answer.find(text)) >= 0]
    return answer[: min(ends)] if ends else answer


def cut_off(trajectory: Trajectory) -> bool:
    """Whether a limit ended the episode before there was an answer."""
    return trajectory.stop not in (StopReason.ANSWERED, StopReason.NO_ACTION)


def token_sums(trajectory: Trajectory) -> tuple[int, int, int] | None:
    """Tokens read, of these from a cache, and written, over all turns; None if the backend does not count them."""
    counts = [turn.tokens for turn in trajectory.turns]
    read = [count.context for count in counts if count.context is not None]
    written = [count.sampled for count in counts if count.sampled is not None]
    if len(read) < len(counts) or len(written) < len(counts):
        return None
    return sum(read), sum(count.context_cached or 0 for count in counts), sum(written)


def own_field(asked: AgentQuestion, play: ServedEpisode, trajectory: Trajectory) -> dict[str, Any]:
    """The field `saccade`: how the episode ended, and what was asked for of it."""
    fields: dict[str, Any] = {
        "id": trajectory.id,
        "dialect": trajectory.provenance.dialect,
        "stop": trajectory.stop,
        "stop_detail": trajectory.stop_detail,
        "notes": list(trajectory.provenance.notes),
        "ignored": list(asked.ignored),
        "turns": len(trajectory.turns),
        "seconds": round(trajectory.seconds, 3),
    }
    if asked.options.trajectory:
        fields["trajectory"] = trajectory.model_dump(mode="json")
    if asked.options.media:
        pictures = [part for part in trajectory.media() if isinstance(part, ImagePart)]
        fields["media"] = {part.sha256: play.data_url(part) for part in pictures}
    return fields
