"""How far two judges of pictures agree: raw agreement and Cohen's kappa."""

from __future__ import annotations

from collections.abc import Iterable

from saccade.evals.agreement import table
from saccade.evals.protocols.faithfulness.records import JudgeAgreement
from saccade.evals.protocols.findings import Rate


def agreement(pairs: Iterable[tuple[bool | None, bool | None]]) -> JudgeAgreement:
    """Verdicts of the model and of the boxes on the same things; pairs with a None are left out."""
    found = table(pairs)
    return JudgeAgreement(
        both=found.both,
        only_model=found.only_first,
        only_boxes=found.only_second,
        neither=found.neither,
        same=Rate(count=found.same, of=found.of),
        kappa=found.kappa,
    )
