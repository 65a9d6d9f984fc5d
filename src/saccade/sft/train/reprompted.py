"""Trajectories with the prompts of a user's file, to train a checkpoint in the words that it will be asked in.

Only the first messages change: what was written and observed stays as it was. A trajectory whose pictures would not be
shown as they were (frames of a video, a picture shown smaller) is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from saccade.dialects.registry import recorded_dialect
from saccade.episode.settings import PromptSettings
from saccade.errors import SaccadeError, TrainingError
from saccade.record.content import Message
from saccade.record.trajectory import Trajectory

Reprompt = Callable[[Trajectory], Trajectory]


def reprompting(words: PromptSettings) -> Reprompt:
    """Gives a trajectory the prompt of `words` in its own dialect; as it is, where they say nothing."""
    if not words.model_dump(include=set(PromptSettings.model_fields), exclude_defaults=True):
        return lambda trajectory: trajectory

    def reprompted(trajectory: Trajectory) -> Trajectory:
        name = trajectory.provenance.dialect
        if not name:
            raise TrainingError(f"{trajectory.id} names no dialect, so data.* cannot give it a prompt.")
        try:
            dialect, _ = words.equipped(recorded_dialect(name))
            messages = dialect.open(trajectory.task).messages
        except SaccadeError as error:
            raise TrainingError(f"data.prompt_file cannot give {trajectory.id} a prompt: {error}") from error
        if _pictures(messages) != _pictures(trajectory.prompt):
            raise TrainingError(
                f"{trajectory.id} showed its pictures otherwise than its dialect does, so data.prompt_file cannot "
                "give it a prompt. Make it anew with prompt_file, or leave that out."
            )
        return trajectory.model_copy(update={"prompt": messages})

    return reprompted


def _pictures(messages: tuple[Message, ...]) -> list[str]:
    return sorted(part.sha256 for message in messages for part in message.media)
