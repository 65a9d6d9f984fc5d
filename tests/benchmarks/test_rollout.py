import pytest

torch = pytest.importorskip("torch")

from benchmarks.figures import Peak
from benchmarks.rollout import RolloutScale, measure_rollout


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # TRL's, where it is installed
def test_a_small_measurement() -> None:
    lines: list[str] = []
    figures = measure_rollout(RolloutScale(tasks=1, group=2, turns=2, tokens=4), "", 1, lines.append)
    values = {(figure.name, figure.beside.partition(",")[0]): figure for figure in figures}
    for name in ("sampling", "peak memory"):
        assert values[name, "generate"].value > 0
        assert values[name, "generate"].ratio is not None
    assert values["playing, sandboxes included", "generate alone"].ratio is not None
    (waiting,) = (figure for figure in figures if figure.name == "waiting for sandboxes")
    assert 0 < waiting.value < 100
    (update,) = (figure for figure in figures if figure.name == "update")
    assert update.value > 0
    assert (update.other is None) == ("not installed" in update.beside)
    assert {figure.met for figure in figures} == {None}
    assert len(lines) == 4


def test_the_peak_is_of_what_was_held_at_once() -> None:
    with Peak(torch.device("cpu")) as peak:
        for _ in range(2):
            torch.ones(8, 2**20).sum()
    assert peak.mib is not None
    assert 30 < peak.mib < 60
