"""An episode's outcome as the record that travels on."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version

from saccade.episode.flow import Outcome
from saccade.episode.plan import Plan
from saccade.record.trajectory import Provenance, Trajectory


def trajectory(plan: Plan, outcome: Outcome, *, model: str, seconds: float) -> Trajectory:
    """The trajectory of `outcome`; `model` is the name under which it was asked, `seconds` its wall time."""
    session = plan.dialect.session
    layers = [turn.execution.layers for turn in outcome.turns if turn.execution is not None and turn.execution.layers]
    return Trajectory(
        id=plan.id,
        task=plan.task,
        group=plan.group,
        rollout=plan.rollout,
        provenance=Provenance(
            saccade=_version(),
            dialect=plan.dialect.id,
            model=model,
            model_revision=outcome.model,
            sampling=plan.sampling,
            limits=plan.limits,
            state_policy=session.state.value,
            repairs=session.repairs,
            layers=layers[0] if layers else (),
            settings=plan.settings,
        ),
        prompt=outcome.prompt,
        turns=outcome.turns,
        stop=outcome.stop,
        stop_detail=outcome.detail,
        created=datetime.now(UTC),
        seconds=seconds,
    )


@cache
def _version() -> str:
    return version("saccade")
