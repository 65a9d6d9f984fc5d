"""The judges of tool outputs by name. Other packages add theirs by an entry point of the group `saccade.judges`.

An entry's target is a function (or class) that makes a judge of a `JudgeContext`. Code of a user's
own may also be a ready judge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, cast

from saccade.core.registry import Registry, has_members
from saccade.errors import RegistryError, SettingsError
from saccade.media.store import MediaStore
from saccade.models.base import Model
from saccade.rewards.judges.model import JudgeRules, ModelJudge
from saccade.rewards.judges.verdict import Judge

_HERE = "saccade.rewards.judges.registry"
_members = has_members(("judge",))


@dataclass(frozen=True, slots=True)
class JudgeContext:
    """What a judge may need."""

    store: MediaStore
    """Of the trajectories' pictures."""
    model: Model | None = None
    """The one of `reward.judge_model`, its replies kept and its requests limited; None where none is named."""
    rules: JudgeRules = field(default_factory=JudgeRules)
    """How it is asked, and the levels of a score."""


def model(context: JudgeContext) -> Judge:
    """A model that sees the question and the pictures of one call; `reward.judge_model` names it."""
    if context.model is None:
        raise SettingsError("reward.judge_model: is needed for reward.judge = model")
    return ModelJudge(context.model, context.store, context.rules)


JUDGES: Final = Registry[object](
    "judges",
    {"boxes@1": "saccade.rewards.judges.box:boxes", "model@1": f"{_HERE}:model"},
    lambda value: "" if callable(value) else _members(value),
)


def make_judge(name: str, context: JudgeContext) -> Judge:
    """Make the judge that `name` names: an id, or code of the user's own (`file.py:NAME`, `module:NAME`).

    Raises:
        RegistryError: nothing has that name (suggests the nearest), or what it names makes no judge.
        SettingsError: it needs a model, and none is named.
    """
    entry = JUDGES.load(name)
    judge = entry(context) if callable(entry) and _members(entry) else entry
    lack = _members(judge)
    if lack:
        raise RegistryError(f"{name} made no judge: {lack.replace('it is', 'it gave', 1)}. See docs/extending.md.")
    return cast(Judge, judge)
