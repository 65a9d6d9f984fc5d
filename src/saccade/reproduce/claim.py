"""What a claim is: what a paper says, what it expects of numbers, and how they are measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from saccade.reproduce.evidence import Evidence
from saccade.reproduce.finding import Expectation, Measured
from saccade.reproduce.settings import Reproduction


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a paper."""

    name: str
    says: str
    """One sentence."""
    source: str
    """Paper, figure or table."""
    expectations: Callable[[Reproduction], tuple[Expectation, ...]]
    """What is expected, before anything is run. Raises `SettingsError` if an arm or a task set is missing."""
    measure: Callable[[Evidence], Mapping[str, Measured]]
    """What was measured, by the name of the expectation."""
    curves: tuple[tuple[str, str], ...]
    """Values of training that the figure shows: as metrics.jsonl names them, and what they are."""
    needs: tuple[str, ...] = ()
    """Names of arms without which it cannot be tried."""
