"""An episode's outcome as the record that travels on."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from saccade.episode.flow import EpisodeOutcome
from saccade.episode.plan import Plan
from saccade.record.trajectory import Provenance, Trajectory

_log = logging.getLogger(__name__)


def trajectory(plan: Plan, outcome: EpisodeOutcome, *, model: str, seconds: float) -> Trajectory:
    """The trajectory of `outcome`; `model` is the name under which it was asked, `seconds` its wall time."""
    layers = [turn.execution.layers for turn in outcome.turns if turn.execution is not None and turn.execution.layers]
    _log.info("%s: %s after %d turns and %.1f s.", plan.id, outcome.stop.value, len(outcome.turns), seconds)
    return Trajectory(
        id=plan.id,
        task=plan.task,
        group=plan.group,
        rollout=plan.rollout,
        provenance=_provenance(plan, model, outcome.model, layers[0] if layers else ()),
        prompt=outcome.prompt,
        turns=outcome.turns,
        stop=outcome.stop,
        stop_detail=outcome.detail,
        created=datetime.now(UTC),
        seconds=seconds,
    )


def begun(plan: Plan, model: str) -> Trajectory:
    """The trajectory before the first turn. Raises `SettingsError` for a task that the dialect cannot show."""
    return Trajectory(
        id=plan.id,
        task=plan.task,
        group=plan.group,
        rollout=plan.rollout,
        provenance=_provenance(plan, model),
        prompt=plan.opening.messages,
    )


def _provenance(plan: Plan, model: str, revision: str = "", layers: tuple[str, ...] = ()) -> Provenance:
    session = plan.dialect.session
    return Provenance(
        saccade=_version(),
        dialect=plan.dialect.id,
        model=model,
        model_revision=revision,
        sampling=plan.sampling,
        limits=plan.limits,
        state_policy="" if plan.hosted else session.state.value,
        tools=tuple(tool.name for tool in plan.dialect.tools),
        repairs=session.repairs,
        layers=layers,
        settings=plan.settings,
        notes=plan.notes,
    )


@cache
def _version() -> str:
    try:
        return version("saccade")
    except PackageNotFoundError:  # a source tree that is not installed
        return "unknown"
