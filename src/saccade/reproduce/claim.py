"""What a claim is: what a paper says, what it expects of numbers, and how they are measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from saccade.errors import SettingsError
from saccade.reproduce.evidence import Evidence
from saccade.reproduce.finding import Expectation, MeasuredEffect
from saccade.reproduce.settings import Reproduction
from saccade.rl.train.settings import RlSettings


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a paper."""

    name: str
    says: str
    """One sentence."""
    source: str
    """Paper, figure or table."""
    expectations: Callable[[Reproduction], tuple[Expectation, ...]]
    """What is expected, before anything is run."""
    measure: Callable[[Evidence], Mapping[str, MeasuredEffect]]
    """What was measured, by the name of the expectation."""
    curves: tuple[tuple[str, str], ...]
    """Values of training that the figure shows: as metrics.jsonl names them, and what they are."""
    needs: tuple[str, ...] = ()
    """Names of arms without which it cannot be tried."""
    suits: Callable[[Reproduction, Mapping[str, RlSettings]], str] = lambda settings, arms: ""
    """What else is wrong with the settings, and those of each arm; empty if nothing is."""

    def check(self, settings: Reproduction, arms: Mapping[str, RlSettings]) -> None:
        """Raises `SettingsError` if the claim cannot be tried with these settings; `arms` are those of each arm."""
        missing = [name for name in self.needs if name not in arms]
        if missing:
            raise SettingsError(
                f"claim {self.name} needs the arm(s) {', '.join(missing)}, which its settings do not have"
            )
        wrong = self.suits(settings, arms)
        if wrong:
            raise SettingsError(f"claim {self.name} cannot be measured: {wrong}")
