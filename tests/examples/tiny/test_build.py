"""From nothing to a folder that answers, and the table."""

from pathlib import Path

import pytest
from tests.examples.tiny.cases import RECIPE

from saccade.episode.run_folder import RunFolder
from saccade.errors import SettingsError
from saccade.plugins.worlds.cli_demo import ExamRow, hold_exam
from saccade.tokens.local_model import LocalModel
from saccade.training.sft.examples import SftCallback
from saccade.training.sft.synth.outcome import SynthProgress
from saccade_tiny.build import Places, build, stage_settings
from saccade_tiny.screen import markdown
from saccade_tiny.settings import Stage


class Heard:
    def __init__(self) -> None:
        self.parts: list[str] = []

    def part(self, name: str) -> None:
        self.parts.append(name)

    def demonstrations(self, name: str, progress: SynthProgress) -> None:
        pass

    def trainer(self) -> SftCallback:
        return SftCallback()


def test_a_stage_that_learns_from_nothing_is_refused(tmp_path: Path) -> None:
    lost = RECIPE.model_copy(update={"stages": (Stage(name="x", demonstrations=("nowhere",), steps=1),)})
    with pytest.raises(SettingsError, match="nowhere"):
        build(lost, tmp_path / "out", Heard())
    assert not (tmp_path / "out").exists()


def test_a_stage_is_a_run_of_sft(tmp_path: Path) -> None:
    places = Places(tmp_path)
    settings = stage_settings(RECIPE, RECIPE.stages[0], places.untrained, places)
    assert settings.data.runs == (str(tmp_path / "demonstrations" / "close-up"),)
    assert (settings.model.vision, settings.model.language) == ("full", "full")
    assert settings.steps == 2
    assert settings.keep.dtype == "float32"
    last = stage_settings(RECIPE, RECIPE.stages[-1], places.untrained, places)
    assert last.keep.dtype == "bfloat16"


def test_the_table_says_how_many_and_how_sure() -> None:
    text = markdown([ExamRow("look", 100, 90, 25, 0.9), ExamRow("video", 50, 40, None, None)])
    assert text.splitlines()[2:] == [
        "| look | 100 | 25% ± 4% | 90% ± 3% | 90% |",
        "| video | 50 | – | 80% ± 6% | – |",
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("processes", [1, 2])
async def test_from_nothing_to_a_table(tmp_path: Path, processes: int) -> None:
    import asyncio

    heard = Heard()
    model = await asyncio.to_thread(build, RECIPE, tmp_path / "out", heard, processes)
    assert [part.split()[0] for part in heard.parts] == ["3", "tokenizer", "stage", "stage"]
    assert (model / "model.safetensors").is_file()
    again = Heard()
    await asyncio.to_thread(build, RECIPE, tmp_path / "out", again)
    assert not any(part.startswith("stage") for part in again.parts)
    with pytest.raises(SettingsError, match="another recipe"):
        await asyncio.to_thread(build, RECIPE.model_copy(update={"seed": 1}), tmp_path / "out", Heard())
    made = LocalModel(str(model))
    row = await hold_exam(RECIPE.exams[0], 2, made, tmp_path / "exams", start=7)
    await made.close()
    sat = RunFolder(tmp_path / "exams" / RECIPE.exams[0].name).ids
    assert {item.rpartition("/")[2] for item in sat} == {"7#0", "8#0"}
    assert row.tasks == 2
    assert 0 <= row.with_code <= 2
