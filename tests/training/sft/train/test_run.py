"""Whole training runs of a tiny checkpoint: they learn, go on exactly, and end in a checkpoint that runs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from tests.training.sft.train.support import said, settings, trajectory, write_run

from saccade.core.settings import save_settings
from saccade.dialects.base import load_dialect
from saccade.episode.run_folder import MEDIA, RunFolder
from saccade.episode.settings import PromptSettings
from saccade.errors import MissingMediaError, SettingsError, TrainingError
from saccade.media.store import MediaStore
from saccade.models.base import Request
from saccade.models.local_text import LocalSettings
from saccade.models.local_weights import load_checkpoint
from saccade.record.codec import read_lines
from saccade.record.content import Answer, ImagePart
from saccade.record.content import Message as Said
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Provenance, Sampling, StopReason, Trajectory, Turn
from saccade.tokens.local_model import LocalModel
from saccade.tokens.segments import Encoder
from saccade.training.sft import examples
from saccade.training.sft.examples import ManyStores, SftCallback, learned_turns, read_examples, reprompting
from saccade.training.sft.run import train
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


class StoppedError(Exception):
    pass


class StopAfter(SftCallback):
    def __init__(self, steps: int) -> None:
        self._steps = steps

    def step(self, number: int, values: Mapping[str, float | int]) -> None:
        if number == self._steps:
            raise StoppedError


def metrics(out: Path, name: str = "loss") -> list[float]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line[name] for line in lines if name in line]


def weights(out: Path) -> str:
    return hashlib.sha256((out / "model" / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def full(tiny: Path, run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sft") / "whole"
    train(settings(tiny, run), out)
    return out


def test_the_loss_falls_and_the_log_says_so(full: Path) -> None:
    losses = metrics(full)
    assert len(losses) == 4
    assert losses == sorted(losses, reverse=True)
    assert metrics(full, "learning_rate")[0] == pytest.approx(1e-3)
    assert metrics(full, "tokens") == sorted(metrics(full, "tokens"))
    assert [path.name for path in sorted((full / "checkpoints").iterdir())] == ["step-00000002", "step-00000004"]


@pytest.mark.parametrize("stopped_after", [1, 3])
def test_a_run_that_was_stopped_goes_on_as_if_never_stopped(
    stopped_after: int, full: Path, tiny: Path, run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(StoppedError):
        train(settings(tiny, run), out, callback=StopAfter(stopped_after))
    train(settings(tiny, run), out, resume=True)
    assert weights(out) == weights(full)
    assert metrics(out) == metrics(full)


def test_it_does_not_go_on_with_other_settings_or_data(full: Path, tiny: Path, run: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--resume"):
        train(settings(tiny, run), full)
    with pytest.raises(SettingsError, match=r"optimizer\.learning_rate: 0\.001 -> 0\.002"):
        train(settings(tiny, run, optimizer={"learning_rate": 2e-3}), full, resume=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "photo.png").touch()
    with pytest.raises(SettingsError, match="no run to continue"):
        train(settings(tiny, run), tmp_path / "full", resume=True)
    moved = tmp_path / "run"
    shutil.copytree(run, moved)
    with pytest.raises(StoppedError):
        train(settings(tiny, moved), tmp_path / "out", callback=StopAfter(3))
    write_run(moved, 1)
    with pytest.raises(TrainingError, match="other data"):
        train(settings(tiny, moved), tmp_path / "out", resume=True)


async def test_the_trained_checkpoint_runs(full: Path, run: Path) -> None:
    model = LocalModel(str(full / "model"), LocalSettings(device="cpu"))
    store = MediaStore(run / "media")
    part = store.put_image(Image.new("RGB", (64, 64), "red"))
    made = await model.complete(Request(messages=(said("user", part, "?"),), sampling=Sampling(max_tokens=4)), store)
    assert made.token_ids is not None
    assert len(made.token_ids) <= 4
    await model.close()


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "change",
    [
        {"batch": {"layout": "padded"}},
        {"batch": {"tokens": 100_000}},
        {"batch": {"tokens": 1}},
        {"model": {"gradient_checkpointing": True}},
        {"model": {"gradient_checkpointing": 1}},
        {"model": {"gradient_checkpointing": "auto"}},
        {"model": {"attention": "eager"}},
        {"model": {"vision_attention": "eager"}},
        {"data": {"picture_cache_mib": 1}},
    ],
    ids=lambda change: "-".join(next(iter(change.values()))),
)
def test_how_it_is_computed_does_not_change_the_loss(
    change: dict[str, Any], full: Path, tiny: Path, run: Path, tmp_path: Path
) -> None:
    train(settings(tiny, run, steps=3, **change), tmp_path / "out")
    # Steps count into the decay of the learning rate, so only the first two updates are those of four steps.
    assert metrics(tmp_path / "out")[0] == pytest.approx(metrics(full)[0], rel=1e-5)
    assert metrics(tmp_path / "out", "gradient_norm")[0] == pytest.approx(metrics(full, "gradient_norm")[0], rel=1e-4)
    assert metrics(tmp_path / "out")[1] == pytest.approx(metrics(full)[1], rel=1e-4)


def trained_names(tiny: Path, out: Path) -> set[str]:
    before, after = load_file(tiny / "model.safetensors"), load_file(out / "model" / "model.safetensors")
    assert before.keys() == after.keys()
    return {name for name, value in after.items() if not torch.equal(value, before[name])}


@pytest.mark.parametrize(
    ("vision", "parts"), [("frozen", set()), ("projector", {"merger"}), ("full", {"merger", "blocks", "patch_embed"})]
)
def test_only_the_chosen_weights_change(vision: str, parts: set[str], tiny: Path, run: Path, tmp_path: Path) -> None:
    train(settings(tiny, run, model={"vision": vision}, steps=1), tmp_path / "out")
    changed = trained_names(tiny, tmp_path / "out")
    assert {name.split(".")[1] for name in changed if name.startswith("visual.")} == parts
    assert any("q_proj" in name for name in changed)


def test_adapters_are_trained_merged_and_kept_beside(tiny: Path, run: Path, tmp_path: Path) -> None:
    plain = settings(
        tiny, run, model={"language": "lora", "vision": "frozen", "lora": {"targets": ["q_proj"]}}, steps=2
    )
    train(plain, tmp_path / "out")
    changed = trained_names(tiny, tmp_path / "out")
    assert changed
    assert all(name.endswith("q_proj.weight") for name in changed)
    assert (tmp_path / "out" / "model" / "adapter" / "adapter_config.json").exists()
    with pytest.raises(StoppedError):
        train(plain, tmp_path / "other", callback=StopAfter(1))
    train(plain, tmp_path / "other", resume=True)
    assert weights(tmp_path / "other") == weights(tmp_path / "out")  # dropout too
    with pytest.raises(SettingsError, match="targets"):
        train(settings(tiny, run, model={"language": "lora", "lora": {"targets": ["nothing"]}}), tmp_path / "third")


def test_bfloat16_is_near_float32(full: Path, tiny: Path, run: Path, tmp_path: Path) -> None:
    train(settings(tiny, run, model={"precision": "bfloat16"}, steps=1), tmp_path / "out")
    assert metrics(tmp_path / "out")[0] == pytest.approx(metrics(full)[0], rel=2e-2)
    exported = load_file(tmp_path / "out" / "model" / "model.safetensors")
    assert {value.dtype for value in exported.values()} == {torch.bfloat16}


def test_held_out_tasks_are_looked_at(tiny: Path, run: Path, tmp_path: Path) -> None:
    watched = {"fraction": 0.4, "every": 1, "samples": 1, "sample_tokens": 4}
    out = tmp_path / "out"
    train(settings(tiny, run, validation=watched, keep={"tensorboard": True}, steps=2), out)
    losses = metrics(out, "validation_loss")
    assert len(losses) == 2
    assert losses[1] < losses[0]
    samples = [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]
    assert [sample["step"] for sample in samples] == [1, 2]
    assert samples[0]["expected"].endswith("<|im_end|>")
    assert list((out / "tensorboard").iterdir())


def test_a_loss_that_is_no_number_ends_the_run(tiny: Path, run: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"step [234] gave a loss of"):
        train(settings(tiny, run, optimizer={"learning_rate": 1e30, "warmup": 0.0, "clip": 0.0}), tmp_path / "out")


def test_an_unknown_attention_is_refused(tiny: Path, run: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"model\.attention"):
        train(settings(tiny, run, model={"attention": "telepathy"}), tmp_path / "out")
    with pytest.raises(SettingsError, match=r"vision_attention"):
        train(settings(tiny, run, model={"vision_attention": "telepathy"}), tmp_path / "out")


def test_smaller_pictures_are_saved_with_the_model(tiny: Path, run: Path, tmp_path: Path) -> None:
    train(settings(tiny, run, model={"picture_pixels": 28 * 28 * 2}, steps=1), tmp_path / "out")
    kept = json.loads((tmp_path / "out" / "model" / "preprocessor_config.json").read_text())
    assert kept["size"]["longest_edge"] == 28 * 28 * 2
    with pytest.raises(SettingsError, match="picture_pixels"):
        train(settings(tiny, run, model={"picture_pixels": 4}, steps=1), tmp_path / "other")


def test_pictures_that_prompts_show_smaller_are_kept_with_the_run(tiny: Path, run: Path, tmp_path: Path) -> None:
    train(settings(tiny, run, media={"shown_pixels": 1000}, steps=1), tmp_path / "out")
    stored = MediaStore(tmp_path / "out" / MEDIA)
    sizes = []
    for file in stored.root.rglob("*"):
        if file.is_file():
            with Image.open(file) as picture:
                sizes.append(picture.width * picture.height)
    assert sizes
    assert max(sizes) <= 1000


@pytest.fixture
def recipe(tiny: Path, run: Path, tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    save_settings(settings(tiny, run, steps=12, keep={"every": 3}, threads=2), path)
    return path


def command(recipe: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "saccade", "sft", str(recipe), "--out", str(out), *more]


def steps(out: Path) -> int:
    path = out / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_killed_at_any_step_and_resumed_equals_never_killed(recipe: Path, tmp_path: Path) -> None:
    subprocess.run(command(recipe, tmp_path / "whole"), check=True, capture_output=True)
    for number, kill_at in enumerate((1, 5, 9)):
        out = tmp_path / f"killed{number}"
        process = subprocess.Popen(command(recipe, out), stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while steps(out) < kill_at and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        subprocess.run(command(recipe, out, "--resume"), check=True, capture_output=True)
        for name in ("model/model.safetensors", "checkpoints/step-00000012/optimiser.safetensors"):
            assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        assert steps(out) == 12


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("more", [(), ("--shard-model",)])
def test_two_processes_learn_what_one_does(recipe: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    subprocess.run(command(recipe, tmp_path / "one"), check=True, capture_output=True)
    spread = command(recipe, tmp_path / "two", "--processes", "2", *more)
    done = subprocess.run(spread, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]

    def losses(out: Path) -> list[float]:
        return [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]

    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), rel=1e-3)
    one, two = (load_file(tmp_path / name / "model/model.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    parts = tmp_path.glob("two/checkpoints/step-00000012/weights*.safetensors")
    assert len(list(parts)) == (2 if more else 1)
