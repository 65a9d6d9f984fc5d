"""What must hold of every rollout before it is trained on; a violation is a fault of ours, and ends the run."""

from __future__ import annotations

import numpy as np

from saccade.errors import TrainingError
from saccade.record.trajectory import Trajectory
from saccade.tokens.build import token_trajectory
from saccade.tokens.encoder import Encoder
from saccade.tokens.segments import TokenTrajectory


def checked_tokens(trajectory: Trajectory, encoder: Encoder, played: tuple[int, ...]) -> TokenTrajectory:
    """The tokens of a rollout, which are those that were `played`.

    Raises:
        TrainingError: they differ, placeholders are not as many as features, or an array has another length.
    """
    tokens = token_trajectory(trajectory, encoder)
    ids, turns, logprobs, mask = tokens.ids(), tokens.turns(), tokens.logprobs(), tokens.loss_mask()
    if not np.array_equal(ids, played):
        raise _fault(trajectory, f"its {len(ids)} tokens are not the {len(played)} that were played")
    placeholders = int((ids == encoder.placeholder_id).sum())
    features = sum(picture.tokens for picture in tokens.pictures)
    if placeholders != features:
        raise _fault(trajectory, f"{placeholders} placeholders stand for {features} features")
    if not len(ids) == len(turns) == len(logprobs) == len(mask):
        raise _fault(trajectory, "its arrays differ in length")
    if np.isnan(logprobs[mask]).any():
        raise _fault(trajectory, "a sampled token has no log-probability")
    if mask[ids == encoder.placeholder_id].any():
        raise _fault(trajectory, "a placeholder would be trained on")
    return tokens


def _fault(trajectory: Trajectory, what: str) -> TrainingError:
    return TrainingError(f"rollout {trajectory.id} cannot be trained on: {what}. A fault of Saccade; report it.")
