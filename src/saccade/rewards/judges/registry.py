"""Make judges of tool outputs by name. Packages add theirs by entry points of the group `saccade.judges`.

An entry is a function (or class) that makes a judge from a `JudgeContext`; a user's own code may also be a ready judge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, cast

from saccade.core.registry import Registry, all_of, has_members
from saccade.core.seam import has_methods, seam
from saccade.errors import RegistryError, SettingsError
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.rewards.judges.model import JudgeRules, ModelJudge
from saccade.rewards.judges.verdict import Judge

_HERE = "saccade.rewards.judges.registry"
_members = has_members(("judge",))


@dataclass(frozen=True, slots=True)
class JudgeContext:
    """Inputs to make a judge from."""

    store: MediaStore
    """Holds the trajectories' pictures."""
    model: Model | None = None
    """`reward.judge_model`, its replies kept and its requests limited; None if not set."""
    rules: JudgeRules = field(default_factory=JudgeRules)
    """How the model is asked, and the levels of a score."""


def model(context: JudgeContext) -> Judge:
    """Judge by a model (`reward.judge_model`) that sees the question and the pictures of one call."""
    if context.model is None:
        raise SettingsError("reward.judge_model: is needed for reward.judge = model")
    return ModelJudge(context.model, context.store, context.rules)


JUDGES: Final = Registry[object](
    "judges",
    {"boxes@1": "saccade.rewards.judges.box:boxes", "model@1": f"{_HERE}:model"},
    lambda value: "" if callable(value) else _members(value),
)


def make_judge(name: str, context: JudgeContext) -> Judge:
    """Make a judge by id or from the user's own code (`file.py:NAME`, `module:NAME`).

    Raises:
        RegistryError: nothing has that name (suggests the nearest), or the result is no judge.
        SettingsError: it needs a model, and none is set.
    """
    entry = JUDGES.load(name)
    judge = seam(entry, object)(context) if callable(entry) and _members(entry) else entry
    lack = all_of(_members, has_methods(Judge))(judge)
    if lack:
        raise RegistryError(f"{name} made no judge: {lack.replace('it is', 'it gave', 1)}. See docs/extending.md.")
    return cast(Judge, judge)
