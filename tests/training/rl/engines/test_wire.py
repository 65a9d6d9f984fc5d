"""What one token that was sampled under a bias tells of a server."""

from __future__ import annotations

import pytest

from saccade.training.rl.engines.wire import SampleOutput, _fault


def output(ids: tuple[int, ...] = (7,), logprob: float = 0.0, ranked: tuple[float, ...] = (0.0, -50.0)) -> SampleOutput:
    return SampleOutput(ids, (logprob,), stopped=False, count=None, ranked=ranked)


@pytest.mark.parametrize(
    ("answered", "fault"),
    [
        (output(), ""),
        (output(ids=(8,)), "does not heed logit_bias"),
        (output(logprob=-0.9e-3), ""),
        (output(logprob=-1.1e-3), "the model's own distribution"),
        # A temperature of 2 halves the 100 between the two biases; the model itself may prefer one by 36.
        (output(ranked=(0.0, -32.1)), ""),
        (output(ranked=(0.0, -31.9)), "leave the temperature out"),
        (output(ranked=(-67.9, 0.0)), ""),
        (output(ranked=(0.0, -68.1)), "leave the temperature out"),
        (output(ranked=(0.0, -100.0)), "leave the temperature out"),
        (output(ranked=(0.0,)), "leave the temperature out"),
        (output(ranked=(0.0, -1.0, -50.0)), "leave the temperature out"),
    ],
)
def test_what_a_biased_token_tells(answered: SampleOutput, fault: str) -> None:
    assert (fault in _fault(answered, 7)) if fault else not _fault(answered, 7)
