"""Trajectories whose texts the dialect would read otherwise today than what was recorded."""

from __future__ import annotations

from saccade.dialects.base import Dialect
from saccade.dialects.registry import load_dialect, recorded_dialect
from saccade.errors import RegistryError
from saccade.record.action import Action, ParseError
from saccade.record.trajectory import Trajectory
from saccade.record.turn import FinishReason, Turn
from saccade.sft.curate.stage import (
    KEEP,
    Drop,
    FilterContext,
    FilterOutcome,
    FilterSettings,
    FilterStage,
    Undecided,
    each,
)


class WellFormed(FilterSettings):
    """Leaves out trajectories with a turn that their dialect would not read as the recorded action.

    A trajectory whose dialect is not known is undecided.
    """

    dialect: str | None = None
    """Dialect to read all trajectories with; None for each one's own."""
    parse_errors: bool = False
    """Whether a turn that was recorded as a parse error, and is one, may stay."""

    def start(self, around: FilterContext) -> FilterStage:
        """A stage for one run over a set. Raises `RegistryError` for a dialect that there is not."""
        if self.dialect is not None:
            load_dialect(self.dialect)
        return each(self._decide)

    def _decide(self, trajectory: Trajectory) -> FilterOutcome:
        name = self.dialect or trajectory.provenance.dialect
        try:
            dialect = load_dialect(name) if self.dialect else recorded_dialect(name)
        except RegistryError as error:
            return Undecided(f"no dialect {name!r}", str(error))
        for number, turn in enumerate(trajectory.turns):
            read = reads_as(dialect, turn)
            # Why a text holds no action is worded anew from time to time; that it holds none is what counts.
            both_none = isinstance(read, ParseError) and isinstance(turn.action, ParseError)
            if read != turn.action and not both_none:
                return Drop("a turn reads otherwise", f"turn {number}: {read.kind} for {turn.action.kind}")
            if isinstance(read, ParseError) and not self.parse_errors:
                return Drop("a turn holds no action", f"turn {number}: {read.reason}")
        return KEEP


def reads_as(dialect: Dialect, turn: Turn) -> Action:
    """What `dialect` reads in a turn."""
    spoken = dialect.transcribe(turn.text, turn.calls)
    return dialect.parse(spoken, turn.finish_reason or FinishReason.STOP)
