"""The rule by which intervals decide."""

from __future__ import annotations

import pytest

from examples.reproduce.evidence import ClaimVerdict, Expectation, MeasuredEffect, blocks, judge, overall_verdict

MORE = Expectation("more", "more", "above", 0.2)
LESS = Expectation("less", "less", "below", -0.1)


def of(*values: float) -> dict[str, float]:
    return {f"task{number}": value for number, value in enumerate(values)}


@pytest.mark.parametrize(
    ("expectation", "values", "verdict"),
    [
        (MORE, [0.5, 0.4, 0.6, 0.5, 0.45], ClaimVerdict.HOLDS),
        (MORE, [0.1, 0.15, 0.05, 0.1], ClaimVerdict.FAILS),
        (MORE, [1.0, -1.0, 1.0, -0.5, 0.5], ClaimVerdict.OPEN),
        (MORE, [0.2, 0.2, 0.2, 0.2], ClaimVerdict.FAILS),
        (LESS, [-0.5, -0.4, -0.5, -0.6], ClaimVerdict.HOLDS),
        (LESS, [0.0, 0.1, -0.05, 0.0], ClaimVerdict.FAILS),
        (LESS, [-1.0, 1.0, -1.0, 0.0], ClaimVerdict.OPEN),
    ],
)
def test_intervals_decide(expectation: Expectation, values: list[float], verdict: ClaimVerdict) -> None:
    assert judge(expectation, MeasuredEffect((of(*values),))).verdict is verdict


def test_every_seed_must_agree() -> None:
    good, bad = of(*[0.9] * 6), of(*[0.1] * 6)
    found = judge(MORE, MeasuredEffect((good, bad)))
    assert found.estimate == pytest.approx(0.5)
    assert found.interval is not None
    assert found.interval.low > MORE.threshold
    assert found.verdict is ClaimVerdict.OPEN
    assert judge(MORE, MeasuredEffect((good, good))).verdict is ClaimVerdict.HOLDS


def test_seeds_are_averaged_pair_by_pair() -> None:
    found = judge(MORE, MeasuredEffect((of(1.0, 0.0), of(0.0, 1.0))))
    assert found.interval == (0.5, 0.5)
    assert found.seeds == (0.5, 0.5)
    assert found.pairs == 2


def test_what_is_missing_decides_nothing() -> None:
    found = judge(MORE, MeasuredEffect((of(0.9, 0.9, 0.9, 0.9),), "the start cannot look"))
    assert found.estimate == pytest.approx(0.9)
    assert found.verdict is ClaimVerdict.OPEN
    assert judge(MORE, MeasuredEffect((of(0.9, 0.9, 0.9),))).verdict is ClaimVerdict.OPEN
    assert judge(MORE, MeasuredEffect(({},))).verdict is ClaimVerdict.OPEN


def test_a_claim_is_as_good_as_its_parts() -> None:
    holds = judge(MORE, MeasuredEffect((of(*[0.9] * 4),)))
    fails = judge(MORE, MeasuredEffect((of(*[0.0] * 4),)))
    undecided = judge(MORE, MeasuredEffect((of(1.0, -1.0, 1.0, -1.0),)))
    shown = judge(Expectation("shown", "shown", "above", 0.2, decides=False), MeasuredEffect((of(*[0.0] * 4),)))
    assert overall_verdict([holds, holds, shown]) is ClaimVerdict.HOLDS
    assert overall_verdict([holds, undecided]) is ClaimVerdict.OPEN
    assert overall_verdict([undecided, fails, holds]) is ClaimVerdict.FAILS
    assert overall_verdict([shown]) is ClaimVerdict.OPEN


def test_blocks_of_steps() -> None:
    assert blocks([1.0, 3.0]) == {"0": 1.0, "1": 3.0}
    assert blocks([float(value) for value in range(16)]) == {str(at): 2 * at + 0.5 for at in range(8)}
    assert blocks([None, None, *[2.0] * 14]) == {str(at): 2.0 for at in range(1, 8)}
    assert len(blocks([1.0] * 17)) == 6
    assert blocks([]) == {}
