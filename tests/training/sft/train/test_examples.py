"""From run folders to rows: which turns are learned, what is held out, what is left out and said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.training.sft.train.support import said, settings, trajectory, write_run

from saccade.dialects.base import load_dialect
from saccade.episode.run_folder import RunFolder
from saccade.episode.settings import PromptSettings
from saccade.errors import MissingMediaError, SettingsError, TrainingError
from saccade.models.local_text import LocalSettings
from saccade.models.local_weights import load_checkpoint
from saccade.record.codec import read_lines
from saccade.record.content import Answer, ImagePart
from saccade.record.content import Message as Said
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Provenance, StopReason, Trajectory, Turn
from saccade.tokens.encoder import Encoder
from saccade.training.sft import examples
from saccade.training.sft.examples import ManyStores, learned_turns, read_examples, reprompting
from saccade.training.sft.settings import SftLossSettings


@pytest.fixture(scope="session")
def encoder(tiny: Path) -> Encoder:
    one = load_checkpoint(str(tiny), LocalSettings(device="cpu"))
    return Encoder("tiny", one.tokenizer, one.image_processor, one.model.config, one.chat_template)


def test_which_turns_are_learned(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    three = trajectory(run, 0, looks=3, broken=True)
    assert learned_turns(three, SftLossSettings()) == [0, 1, 2, 3]
    assert learned_turns(three, SftLossSettings(error_turns="skip")) == [1, 2, 3]
    assert learned_turns(three, SftLossSettings(earlier_rounds="skip")) == [2, 3]
    one = trajectory(run, 1, looks=1)
    assert learned_turns(one, SftLossSettings(earlier_rounds="skip")) == [0, 1]


def test_only_the_learned_turns_are_in_the_mask(tmp_path: Path, tiny: Path, encoder: Encoder) -> None:
    run = RunFolder(tmp_path / "r")
    run.append(trajectory(run, 0, looks=2, broken=True))
    (row,) = read_examples(settings(tiny, run.root, loss={"error_turns": "skip"}), encoder).train
    learned = encoder.decode(row.ids[row.trained].tolist())
    assert learned == (
        "<think>I crop.</think><code>plt.imshow(image.crop((0, 0, 32, 33)))</code><|im_end|>"
        "<answer>red</answer><|im_end|>"
    )


def test_large_pictures_of_prompts_are_learned_smaller(tmp_path: Path, tiny: Path, encoder: Encoder) -> None:
    run = RunFolder(tmp_path / "r")
    run.append(trajectory(run, 0, looks=1))
    out = tmp_path / "out"
    (plain,) = read_examples(settings(tiny, run.root), encoder, out=out).train
    assert not out.exists()
    (row,) = read_examples(settings(tiny, run.root, media={"shown_pixels": 1000}), encoder, out=out).train
    first, look = row.pictures
    assert first.part.width * first.part.height <= 1000 < plain.pictures[0].part.width * plain.pictures[0].part.height
    assert look.part == plain.pictures[1].part, "what a call gave back stays as it was"
    assert first.part.sha256 in ManyStores([str(run.root), str(out)])
    assert "is shown scaled down" in encoder.decode(row.ids.tolist())


def test_damaged_pictures_are_left_out_and_listed(tmp_path: Path, tiny: Path, encoder: Encoder) -> None:
    run = RunFolder(tmp_path / "r")
    for number in range(4):
        run.append(trajectory(run, number, looks=1))
    first, *_ = (trajectory(run, number, looks=1).task.media[0].part for number in (2, 3))
    stored = run.store.path(first.sha256)
    stored.write_bytes(stored.read_bytes()[:-20])  # a copy that broke off
    found = read_examples(settings(tiny, run.root, data={"most_broken": 0.3}), encoder, out=tmp_path / "out")
    assert [row.id for row in found.train] == ["t0", "t1", "t3"]
    assert found.left_out == {"with a damaged picture": 1}
    (line,) = (tmp_path / "out" / "left-out.jsonl").read_text().splitlines()
    assert json.loads(line) == {"id": "t2", "reason": "with a damaged picture"}
    stored.unlink()
    lost = read_examples(settings(tiny, run.root), encoder)
    assert lost.left_out == {"whose pictures or videos are in no media folder": 1}
    for number in (1, 3):
        path = run.store.path(trajectory(RunFolder(tmp_path / "s"), number).task.media[0].part.sha256)
        path.write_bytes(b"")
    with pytest.raises(TrainingError, match=r"3 of 4 trajectories.*or damaged.*The first is t1, with a damaged"):
        read_examples(settings(tiny, run.root), encoder)


def test_what_is_left_out_is_counted(tmp_path: Path, tiny: Path, encoder: Encoder) -> None:
    run = RunFolder(tmp_path / "r")
    complete = trajectory(run, 0, looks=1)
    flat = ImagePart(sha256="c" * 64, width=2100, height=10)
    for number, change in enumerate(
        [
            {},
            {"stop": StopReason.SANDBOX_LOST},
            {"prompt": (Said(role="user", parts=(flat,)),)},
            {"prompt": (said("user", "long " * 900),)},
            {"turns": ()},
        ]
    ):
        run.append(complete.model_copy(update={"id": f"t{number}", **change}))
    found = read_examples(settings(tiny, run.root, data={"most_tokens": 400}), encoder)
    assert [row.id for row in found.train] == ["t0"]
    assert found.left_out == {
        "ended by an outage of ours": 1,
        "without a token form": 1,
        "whose first turn does not fit 400 tokens": 1,
        "with no turn that is learned": 1,
    }
    assert "refuses a picture of 2100x10 pixels" in found.refusal


def test_a_folder_that_is_named_twice_counts_twice_and_is_read_once(
    tmp_path: Path, tiny: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (write_run(tmp_path / name, 3, looks=1) for name in "ab")
    files: list[Path] = []

    def counted(path: Path, kind: type[Trajectory]) -> Iterator[Trajectory]:
        files.append(path)
        return read_lines(path, kind)

    monkeypatch.setattr(examples, "read_lines", counted)
    counts: list[int] = []
    found = read_examples(settings(tiny, first.root, second.root, first.root), encoder, counts.append)
    once = read_examples(settings(tiny, first.root), encoder)
    assert [row.id for row in found.train] == [row.id for row in once.train] * 3
    assert counts == list(range(1, 10))
    assert [path.parent for path in files] == [first.root, second.root, first.root]


def test_long_trajectories_lose_their_last_turns(tmp_path: Path, tiny: Path, encoder: Encoder) -> None:
    run = write_run(tmp_path / "r", 1, looks=3)
    (long,) = read_examples(settings(tiny, run.root), encoder).train
    (short,) = read_examples(settings(tiny, run.root, data={"most_tokens": len(long) - 1}), encoder).train
    assert len(short) < len(long)
    assert np.array_equal(short.ids, long.ids[: len(short)])
    assert short.ids[-1] == encoder.end_id
    assert len(short.pictures) == len(long.pictures) - 1


def test_no_trajectory_is_longer_than_the_context(tmp_path: Path, tiny: Path, encoder: Encoder) -> None:
    run = write_run(tmp_path / "r", 1, looks=30)
    (row,) = read_examples(settings(tiny, run.root), encoder).train
    assert len(row) <= encoder.context_tokens == 2048


def test_tasks_are_held_out_whole_and_always_the_same(tmp_path: Path, tiny: Path, encoder: Encoder) -> None:
    run = write_run(tmp_path / "r", 30)
    for number in range(30):
        run.append(trajectory(run, number).model_copy(update={"id": f"again{number}"}))
    found = read_examples(settings(tiny, run.root, validation={"fraction": 0.4, "most": 10}), encoder)
    held = {row.id for row in found.validation}
    learned = {row.id for row in found.train}
    assert len(held) == 10
    assert found.left_out == {"held out beyond validation.most": 60 - 10 - len(learned)}
    assert {f"t{number}" in learned for number in range(30)} == {True, False}
    assert all((f"t{number}" in learned) == (f"again{number}" in learned) for number in range(30))


def test_the_fingerprint_tells_data_apart(tmp_path: Path, tiny: Path, encoder: Encoder) -> None:
    run = write_run(tmp_path / "r", 4, looks=1)

    def fingerprint(**more: object) -> str:
        return read_examples(settings(tiny, run.root, **more), encoder).fingerprint

    first = fingerprint()
    assert fingerprint() == first
    assert fingerprint(loss={"earlier_rounds": "skip"}) == first  # changes no mask here
    assert fingerprint(data={"sampled_ids": "text"}) == first
    longest = max(len(row) for row in read_examples(settings(tiny, run.root), encoder).train)
    assert fingerprint(data={"most_tokens": longest - 1}) != first
    run.append(trajectory(run, 9))
    assert fingerprint() != first


def test_nothing_to_learn_from_is_an_error_that_says_why(tmp_path: Path, tiny: Path, encoder: Encoder) -> None:
    with pytest.raises(SettingsError, match="no run folder: it is not there"):
        read_examples(settings(tiny, tmp_path / "nothing"), encoder)
    run = RunFolder(tmp_path / "r")
    run.append(trajectory(run, 0).model_copy(update={"stop": StopReason.MODEL_LOST}))
    with pytest.raises(TrainingError, match="1 ended by an outage"):
        read_examples(settings(tiny, run.root), encoder)


def test_media_are_found_in_any_of_the_runs(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, count) for name, count in (("a", 1), ("b", 3))]
    part = next(trajectory(runs[1], 2).media())
    assert isinstance(part, ImagePart)
    both = ManyStores(str(run.root) for run in runs)
    assert both.get_bytes(part.sha256) == runs[1].store.get_bytes(part.sha256)
    with pytest.raises(MissingMediaError):
        both.get_bytes("0" * 64)


PHOTO = ImagePart(sha256="1" * 64, width=640, height=480, mime="image/png")


def played(dialect: str, shown: ImagePart = PHOTO) -> Trajectory:
    task = Task(id="t", question="What is it?", media=(NamedMedia(name="photo", part=PHOTO),))
    asked = task.model_copy(update={"media": (NamedMedia(name="photo", part=shown),)})
    prompt = load_dialect(dialect or "direct").open(asked).messages
    turn = Turn(text="<answer>a sign</answer>", action=Answer(text="a sign"))
    return Trajectory(id="t#0", task=task, prompt=prompt, turns=(turn,), provenance=Provenance(dialect=dialect))


@pytest.mark.parametrize("dialect", ["direct@1:reason", "thyme@1", "deepeyes@1", "vista@1", "pyvision@1:repo"])
def test_only_the_first_messages_change(dialect: str, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("System prompt:\nRules.\nUser prompt:\nMine: {query}")
    before = played(dialect)
    after = reprompting(PromptSettings(prompt_file=str(tmp_path / "mine.txt")))(before)
    assert after.prompt[0].text == "Rules."
    assert "Mine: What is it?" in after.prompt[1].text
    assert after.model_copy(update={"prompt": before.prompt}) == before
    assert reprompting(PromptSettings())(before) is before


def test_what_cannot_be_said_anew_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("{query}")
    reprompt = reprompting(PromptSettings(prompt_file=str(tmp_path / "mine.txt")))
    small = PHOTO.model_copy(update={"sha256": "2" * 64})
    for one, words in (
        (played(""), "names no dialect"),
        (played("direct@1:reason", small), "showed its pictures otherwise"),
    ):
        with pytest.raises(TrainingError, match=words):
            reprompt(one)
