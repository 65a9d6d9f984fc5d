"""How a run of synthesis goes: counts that a screen shows while it runs and at its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from saccade.errors import ModelLostError, ModelRefusedError, SaccadeError, SandboxLostError, ToolLostError
from saccade.record.trajectory import StopReason
from saccade.sft.synth.made import Made, is_right

OUTAGES = 8
"""So many jobs in a row without a trajectory, all for a reason of ours, end the run."""

_OUTAGE: dict[str, type[SaccadeError]] = {
    StopReason.MODEL_LOST.value: ModelLostError,
    StopReason.MODEL_REFUSED.value: ModelRefusedError,
    StopReason.SANDBOX_LOST.value: SandboxLostError,
    StopReason.TOOL_LOST.value: ToolLostError,
    "writer lost": ModelLostError,
}


def may_pass(made: Made) -> bool:
    """Whether the job came to nothing for a reason that may be gone the next time."""
    return made.discarded in _OUTAGE or made.discarded == StopReason.CANCELLED.value


@dataclass
class SynthProgress:
    """Counts so far."""

    total: int
    """Jobs of the run."""
    skipped: int = 0
    """Trajectories that were there before."""
    rejected_before: int = 0
    """Jobs whose trajectories were not wanted before."""
    sources: tuple[str, ...] = ()
    """What is taken of each source and what is not, a line for each."""
    estimate: str = ""
    """What the run will roughly cost, in words; empty if no model is asked."""
    kept: int = 0
    rejected: int = 0
    """Trajectories that were played to their end and are not wanted."""
    right: int = 0
    """Kept ones whose score `correct` is 1."""
    makers: Counter[str] = field(default_factory=Counter)
    """Kept ones by who made them."""
    discarded: Counter[str] = field(default_factory=Counter)
    """Jobs without a trajectory, by the kind of reason."""
    example: dict[str, str] = field(default_factory=dict)
    """The first reason of each kind, in full."""
    _outages: int = 0

    @property
    def done(self) -> int:
        """Jobs that are over."""
        return self.skipped + self.rejected_before + self.kept + self.rejected + sum(self.discarded.values())

    def count(self, made: Made) -> None:
        """Count one job.

        Raises:
            SaccadeError: there were `OUTAGES` outages in a row; says what the last one was.
        """
        if made.trajectory is not None:
            self._outages = 0
            self.kept += 1
            self.right += is_right(made.trajectory)
            self.makers[made.trajectory.provenance.model] += 1
            return
        if made.final:
            self._outages = 0
            self.rejected += 1
            return
        self.discarded[made.discarded] += 1
        self.example.setdefault(made.discarded, made.detail)
        outage = _OUTAGE.get(made.discarded)
        self._outages = self._outages + 1 if outage is not None else 0
        if outage is not None and self._outages >= OUTAGES:
            raise outage(
                f"{OUTAGES} jobs in a row came to nothing ({made.discarded}): {made.detail} "
                "What was made before is kept; correct the cause and run the same command again."
            )
