"""A picture that is broken or gone ends no evaluation, synthesis or environment, until there are too many."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from tests.evals.support import oracle, settings

from saccade.errors import DataError, SettingsError
from saccade.evals.grades import BROKEN_TASK
from saccade.evals.rows import read_rows
from saccade.evals.run import evaluate
from saccade.models.scripted import ScriptedModel
from saccade.training.env import LookAgainEnv
from saccade.training.sft.synth.run import make_questions, synthesise
from saccade.training.sft.synth.settings import SynthSettings, TeacherSettings


class Stop(Exception):  # noqa: N818
    """Breaks a run off."""


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200])


def photos(folder: Path, count: int, bad: tuple[int, ...], spoil: Callable[[Path], None] = cut) -> Path:
    folder.mkdir(exist_ok=True)
    rows = [{"image": f"{n}.png", "question": f"Is {n} red?", "answer": "yes", "id": f"r{n}"} for n in range(count)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for number in range(count):
        Image.effect_noise((40, 30), 90).save(folder / f"{number}.png")
        if number in bad:
            spoil(folder / f"{number}.png")
    return folder


async def test_an_evaluation_counts_them_and_tries_them_again(tmp_path: Path) -> None:
    source, run = photos(tmp_path / "many", 20, (3, 7)), tmp_path / "run"
    made = await evaluate(settings(source, k=2), run, player=oracle)
    assert (made.progress.played, made.progress.failed, made.summary.missing) == (36, 4, 4)
    assert made.progress.kinds == {BROKEN_TASK: 4}
    assert made.progress.broken == {"many/r3", "many/r7"}
    assert "cannot be decoded" in (run / "failures.jsonl").read_text()
    photos(tmp_path / "many", 20, (7,))
    again = await evaluate(settings(source, k=2), run, player=oracle)
    assert (again.progress.skipped, again.progress.played, again.summary.missing) == (36, 2, 2)


async def test_a_file_that_goes_while_a_run_plays_is_one_of_them(tmp_path: Path) -> None:
    source = photos(tmp_path / "many", 6, ())
    played = 0

    def player(plan: object) -> ScriptedModel:
        nonlocal played
        played += 1
        (source / "5.png").unlink(missing_ok=True)
        return oracle(plan)  # type: ignore[arg-type]

    made = await evaluate(settings(source), tmp_path / "run", workers=1, player=player)
    assert (made.progress.played, made.progress.kinds[BROKEN_TASK]) == (5, 1)


async def test_an_evaluation_goes_on_after_rows_were_taken_out_and_put_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def rows(*numbers: int) -> Path:
        folder = tmp_path / "many"
        folder.mkdir(exist_ok=True)
        lines = [json.dumps({"question": f"Is {n} red?", "answer": f"a{n}"}) for n in numbers]
        (folder / "rows.jsonl").write_text("\n".join(lines))
        return folder

    def answers() -> dict[str, str | None]:
        return {row.question: row.gold for row in read_rows(tmp_path / "run")}

    def broken_off(plan: object) -> ScriptedModel:
        if "3" in plan.task.question:  # type: ignore[attr-defined]
            raise Stop
        return oracle(plan)  # type: ignore[arg-type]

    with pytest.raises(Stop):
        await evaluate(settings(rows(0, 1, 2, 3, 4, 5)), tmp_path / "run", workers=1, player=broken_off)
    assert len(answers()) == 3
    with caplog.at_level(logging.WARNING, "saccade"):
        made = await evaluate(settings(rows(0, 2, 3, 4, 5)), tmp_path / "run", player=oracle)
    assert (made.progress.skipped, made.progress.played) == (2, 3)
    assert "1 tasks were taken out" in caplog.text
    assert answers() == {f"Is {n} red?": f"a{n}" for n in range(6)}, "each once, none under another's name"
    assert made.summary.total.avg == 1
    more = await evaluate(settings(rows(0, 2, 3, 4, 5, 6)), tmp_path / "run", player=oracle)
    assert (more.progress.skipped, more.progress.played) == (5, 1)
    assert answers() == {f"Is {n} red?": f"a{n}" for n in range(7)}
    assert (await evaluate(settings(rows(0, 2, 3, 4, 5, 6)), tmp_path / "run", player=oracle)).progress.skipped == 6
    with pytest.raises(SettingsError, match="1 tasks say something else than when the run"):
        await evaluate(settings(rows(9, 2, 3, 4, 5, 6)), tmp_path / "run", player=oracle)


@pytest.mark.parametrize(("most", "ends"), [(0.2, True), (0.5, False), (0.0, True)])
async def test_too_many_end_an_evaluation(most: float, ends: bool, tmp_path: Path) -> None:
    source = photos(tmp_path / "many", 10, (0, 1, 2, 3))
    given = settings(source, most_broken=most)
    if ends:
        with pytest.raises(DataError, match=r"of 10 tasks cannot be made.*most_broken"):
            await evaluate(given, tmp_path / "run", workers=1, player=oracle)
    else:
        assert (await evaluate(given, tmp_path / "run", workers=1, player=oracle)).progress.played == 6
    # The share may be changed when the run goes on.
    more = settings(source, most_broken=1.0)
    assert (await evaluate(more, tmp_path / "run", player=oracle)).summary.total.samples == 6


def synthesis(source: Path, **more: object) -> SynthSettings:
    teacher = TeacherSettings(model="teacher", recipe=more.pop("recipe", "solve"))  # type: ignore[arg-type]
    return SynthSettings.model_validate({"sources": (str(source),), "n": 100, "teacher": teacher, **more})


async def test_a_synthesis_leaves_them_out(tmp_path: Path) -> None:
    source = photos(tmp_path / "many", 20, (0, 7))
    teacher = lambda name: ScriptedModel(["<answer>yes</answer>"] * 40, name=name)  # noqa: E731
    made = await synthesise(synthesis(source, dialect="direct"), tmp_path / "run", models=teacher)
    assert made.kept == 18
    photos(tmp_path / "many", 20, tuple(range(8)))
    with pytest.raises(DataError, match=r"of 20 tasks cannot be made"):
        await synthesise(synthesis(source, dialect="direct"), tmp_path / "other", models=teacher)


async def test_questions_are_made_about_the_others(tmp_path: Path) -> None:
    source = photos(tmp_path / "many", 10, (0, 7))
    (source / "rows.jsonl").unlink()
    reply = '[{"question": "What is it?", "answer": "noise"}]'
    teacher = lambda name: ScriptedModel([reply] * 40, name=name)  # noqa: E731
    made = await make_questions(synthesis(source, recipe="question"), tmp_path / "run", models=teacher)
    assert (made.asked, made.discarded) == (8, {"broken task": 2})


def test_an_environment_draws_another(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = photos(tmp_path / "many", 6, (2,))
    with caplog.at_level(logging.WARNING, "saccade"), LookAgainEnv([str(source)], dialect="direct") as env:
        seen = {env.reset(seed=seed)[1]["task"] for seed in range(40)}
    assert len(seen) == 5
    assert caplog.text.count("is left out") == 1
