import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from saccade.bench.local import LocalScale, measure_local


def test_a_small_measurement() -> None:
    told: list[str] = []
    figures = measure_local(LocalScale(turns=2, tokens=3, episodes=2), told=told.append)
    values = {figure.name: figure.value for figure in figures}
    assert told == ["one episode", "2 episodes side by side"]
    assert 0 < values["one episode, tokens"] <= 2 * 3
    assert values["one episode, tokens"] < values["2 episodes side by side, tokens"] <= 2 * 2 * 3
    assert all(value > 0 for value in values.values())
