"""Ours to another format and back: equal to what that format says it holds."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.training.sft.formats.cases import ALL, Scene, read

from saccade.record.base import clean_text
from saccade.record.execution import Execution, Status
from saccade.record.trajectory import StopReason, Trajectory
from saccade.training.sft.formats.base import ConversionOptions, load_format
from saccade.training.sft.formats.conversation import held
from saccade.training.sft.formats.rows import RowFormat

CONVERSATIONS = ("sharegpt", "swift")


def held_by(name: str, trajectory: Trajectory) -> Trajectory:
    format_ = load_format(name)
    assert isinstance(format_, RowFormat)
    return format_.codec.held(trajectory)


def there_and_back(scene: Scene, name: str, *trajectories: Trajectory) -> list[Trajectory]:
    middle, out = scene.convert(scene.write(*trajectories), "saccade", name)
    assert out.refused == ()
    back, home = scene.convert(middle, name, "saccade")
    assert home.refused == ()
    return read(back)


def test_ours_to_ours_is_everything(scene: Scene) -> None:
    written = [scene.two_looks(dialect) for dialect in ALL]
    assert there_and_back(scene, "saccade", *written) == written


@pytest.mark.parametrize("name", [*CONVERSATIONS, "verl"])
def test_every_dialect(scene: Scene, name: str) -> None:
    written = [scene.two_looks(dialect, id=f"t{n}") for n, dialect in enumerate(ALL)]
    written += [scene.episode(f"direct@1:{kind}", [], id=kind) for kind in ("reason", "short", "think")]
    assert there_and_back(scene, name, *written) == [held_by(name, item) for item in written]


@pytest.mark.parametrize("name", ["thyme", "thyme-base64"])
def test_thyme(scene: Scene, name: str) -> None:
    written = [scene.two_looks("thyme@1:train"), scene.episode("thyme@1:eval", [], id="direct")]
    assert there_and_back(scene, name, *written) == [held_by(name, item) for item in written]


def test_media_come_back_bit_by_bit(scene: Scene) -> None:
    written = scene.two_looks("codedance@1")
    middle, _ = scene.convert(scene.write(written), "saccade", "sharegpt")
    back, _ = scene.convert(middle, "sharegpt", "saccade")
    for part in held(written).media():
        path = Path("media") / part.sha256[:2] / part.sha256
        assert (back / path).read_bytes() == (scene.run / path).read_bytes()


def test_what_is_held_is_what_the_docstring_says(scene: Scene) -> None:
    written = scene.two_looks("pyvision@1:repo", tags=("chart",), split="train")
    kept = held(written)
    assert [turn.text for turn in kept.turns] == [turn.text for turn in written.turns]
    assert [turn.action for turn in kept.turns] == [turn.action for turn in written.turns]
    assert [turn.observation for turn in kept.turns] == [turn.observation for turn in written.turns]
    assert [(line.role, line.text, line.media) for line in kept.prompt] == [
        (line.role, line.text, line.media) for line in written.prompt
    ]
    assert (kept.id, kept.stop) == (written.id, StopReason.ANSWERED)
    assert (kept.task.question, kept.task.answer, kept.task.source) == ("How many?", "5", "made up")
    assert all(turn.execution is None for turn in kept.turns)
    assert (kept.scores, kept.task.tags, kept.task.split, kept.seconds) == ((), (), "", 0.0)


plain = st.text(st.characters(exclude_categories=("Cs",)), max_size=30).map(clean_text)
places = st.lists(
    st.sampled_from(["<image>", "<video>", "<image\\>", "<\\image>", "<image\\\\>", "<image", ">", "a", "\n"])
)
words = st.one_of(plain, places.map("".join))
steps = st.lists(st.tuples(words, words, st.lists(st.integers(0, 3), max_size=2), st.booleans()), max_size=3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(ALL), steps, words, words)
def test_whatever_was_printed_comes_back_or_is_refused(
    scene: Scene, dialect: str, turns: list[tuple[str, str, list[int], bool]], question: str, answer: str
) -> None:
    outcomes = []
    for thought, printed, seeds, fine in turns:
        failed = Execution(status=Status.ERROR, stdout=printed, traceback=f"ValueError: {printed}")
        outcomes.append((thought, scene.execution(printed, *seeds) if fine else failed))
    try:
        written = scene.episode(dialect, outcomes, answer, question=question)
    except ValueError:
        return  # the dialect itself cannot say this
    for name in [*CONVERSATIONS, "verl", *(["thyme", "thyme-base64"] if dialect.startswith("thyme") else [])]:
        format_ = load_format(name)
        with tempfile.TemporaryDirectory() as folder:
            refused = format_.write([written], scene.store, Path(folder), ConversionOptions())
            back = list(format_.read(Path(folder), ConversionOptions(), scene.store).rows)
        assert back == ([] if refused else [held_by(name, written)])


@pytest.mark.parametrize("dialect", ALL)
def test_plain_words_are_never_refused(scene: Scene, dialect: str) -> None:
    outcomes = [("Hm, näher.", scene.execution("x < 5 & y > 3 </code>\n", 2, 2)), ("So.", scene.execution(""))]
    written = scene.episode(dialect, outcomes, question="Wie viele?\nUnd <b>?")
    scene.write(written)
    for name in (*CONVERSATIONS, "verl"):
        _, out = scene.convert(scene.run, "saccade", name)
        assert [item.reason for item in out.refused] == []


@pytest.mark.parametrize("dialect", ALL)
def test_a_literal_placeholder_is_kept_in_every_text(scene: Scene, dialect: str) -> None:
    literal = "a <image> b <video> c <image\\> d <\\image>"
    outcomes = [(literal, scene.execution(literal + "\n", 2)), (literal, scene.execution(literal))]
    written = scene.episode(dialect, outcomes, question="What is <image\\>, and <image\\\\>?")
    for name in (*CONVERSATIONS, "verl"):
        assert there_and_back(scene, name, written) == [held_by(name, written)]
    middle, _ = scene.convert(scene.run, "saccade", "sharegpt")
    (row,) = [json.loads(line) for line in (middle / "data.jsonl").read_text(encoding="utf-8").splitlines()]
    said = "".join(line["value"] for line in row["conversations"]) + row.get("system", "")
    assert said.count("<image>") == len(row["images"]) == 2
    assert said.count("<video>") == len(row["videos"])
    assert "What is <image>, and <image\\>?" in "".join(message.text for message in written.prompt)
