import pytest

pytest.importorskip("torch")

from saccade.bench.rollout import RolloutScale, measure_rollout


@pytest.mark.slow
def test_a_small_measurement() -> None:
    told: list[str] = []
    scale = RolloutScale(tasks=1, group=2, turns=2, tokens=4)
    sampling, playing, waiting = measure_rollout(scale, "", 1, told.append)
    assert sampling.value > 0
    assert sampling.ratio is not None
    assert playing.ratio is not None
    assert 0 < waiting.value < 100
    assert (sampling.met, waiting.met) == (None, None)
    assert len(told) == 2
