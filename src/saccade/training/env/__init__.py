"""The loop as a Gymnasium environment: `LookAgainEnv`, and its ids `saccade/LookAgain-v0` and the like.

    import gymnasium, saccade.training.env
    env = gymnasium.make("saccade/PyVision-v0")

Importing this package registers the ids: Gymnasium itself looks for no installed packages, so a program must. In one
string, `gymnasium.make("saccade.training.env:saccade/PyVision-v0")` does both.
"""

from __future__ import annotations

from importlib import import_module

from saccade.core.registry import install
from saccade.errors import UnavailableError

try:
    import_module("gymnasium")
except ModuleNotFoundError as error:
    raise UnavailableError(
        f"saccade.training.env needs Gymnasium, which is not installed: python -m {install('env')}",
        name="gymnasium",
    ) from error

from saccade.rewards.reward import ExactMatch, Graded, Rewarded, Rubric
from saccade.training.env.look_again import LookAgainEnv
from saccade.training.env.spaces import PicturesSpace, TextSpace, register_envs

__all__ = [
    "ExactMatch",
    "Graded",
    "LookAgainEnv",
    "PicturesSpace",
    "Rewarded",
    "Rubric",
    "TextSpace",
    "register_envs",
]

register_envs()
