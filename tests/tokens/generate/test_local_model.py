"""A checkpoint in process, on tiny ones with random weights of every family."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.models.helpers import Media, ask, said

from saccade.errors import MissingMediaError, ModelRefusedError, SettingsError
from saccade.models.base import Completion, Request, ToolSpec
from saccade.models.local_text import LocalSettings
from saccade.models.registry import load_model
from saccade.record.content import ImagePart, VideoPart
from saccade.record.trajectory import FinishReason, Sampling
from saccade.tokens.local_model import LocalModel

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file
from tests.tokens.generate.support import NEWER, each_family

from saccade.models.families.known import FAMILIES
from saccade.models.local_weights import load_checkpoint
from saccade.plugins.worlds.random_checkpoint import save_tiny

with_each_family = pytest.mark.parametrize("family", each_family(*NEWER))
MEDIA = Media()
RED = MEDIA.put(Image.new("RGB", (112, 56), "red"))
NOISE = MEDIA.put(Image.effect_noise((70, 90), 80).convert("RGB"))


def sampled(seed: int | None = 1, tokens: int = 24, **fields: Any) -> Sampling:
    return Sampling(temperature=1.0, seed=seed, max_tokens=tokens, **fields)


def alike(one: Completion, other: Completion) -> bool:
    """Whether two answers are the same but for the last digits of their log-probabilities."""
    assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    return replace(one, logprobs=None) == replace(other, logprobs=None)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {family: tmp_path_factory.mktemp(family) for family in FAMILIES}
    for family, folder in made.items():
        save_tiny(folder, family)
    return made


@pytest.fixture
async def model(folders: dict[str, Path]) -> Any:
    model = LocalModel(str(folders["qwen2_5_vl"]))
    yield model
    await model.close()


@pytest.mark.few(2)
@with_each_family
async def test_greedy_text_is_the_same_each_time_and_depends_on_the_picture(
    family: str, folders: dict[str, Path]
) -> None:
    model = load_model(f"local:{folders[family]}")
    sampling = Sampling(max_tokens=16)

    async def first(*parts: str | ImagePart) -> Any:
        return await model.complete(ask(*parts, sampling=sampling), MEDIA)

    one = await first("What is ", RED, "this?")
    plain = await first("What is this?")
    assert alike(await first("What is ", RED, "this?"), one)
    assert alike(await first("What is this?"), plain)  # the picture asked about in between left nothing behind
    assert (await first("What is ", NOISE, "this?")).logprobs != one.logprobs
    assert one.usage.prompt_tokens > plain.usage.prompt_tokens
    assert one.usage.sampled_tokens == len(one.token_ids) == len(one.logprobs) <= 16
    assert model.name == f"local:{folders[family]}"
    await model.close()


async def test_a_seed_repeats_a_draw_whatever_else_draws(model: LocalModel, capfd: pytest.CaptureFixture[str]) -> None:
    request = ask("Say", sampling=sampled(7))
    one = await model.complete(request, MEDIA)
    assert capfd.readouterr() == ("", ""), "nor does loading print anything"
    torch.manual_seed(99)
    assert alike(await model.complete(request, MEDIA), one)
    others = [(await model.complete(ask("Say", sampling=sampled(seed)), MEDIA)).text for seed in (8, None, None)]
    assert len({one.text, *others}) == 4


async def test_a_stop_string_or_the_token_limit_ends_the_text_and_the_tokens(model: LocalModel) -> None:
    said_so_far: list[str] = []
    uncut = await model.complete(ask("Say", sampling=sampled()), MEDIA, on_text=said_so_far.append)
    assert uncut.finish is FinishReason.LENGTH
    assert uncut.token_ids is not None
    assert "".join(said_so_far) == uncut.text
    assert len(said_so_far) > 1
    for tokens in (1, 5, 12):
        cut = await model.complete(ask("Say", sampling=sampled(tokens=tokens)), MEDIA)
        assert (cut.finish, cut.token_ids) == (FinishReason.LENGTH, uncut.token_ids[:tokens])
    for at in range(2, len(uncut.text) - 4, 4):
        stop = uncut.text[at : at + 3]
        heard: list[str] = []
        cut = await model.complete(ask("Say", sampling=sampled(), stop=("no such", stop)), MEDIA, on_text=heard.append)
        assert cut.finish is FinishReason.STOP_STRING
        assert cut.text == uncut.text[: uncut.text.index(stop) + 3] == "".join(heard)
        assert cut.token_ids is not None
        assert cut.token_ids == uncut.token_ids[: len(cut.token_ids)]
        assert len(cut.logprobs or ()) == len(cut.token_ids) == cut.usage.sampled_tokens


async def test_questions_side_by_side_do_not_mix(model: LocalModel) -> None:
    requests = [ask("Say", RED if seed % 2 else NOISE, sampling=sampled(seed)) for seed in range(6)]
    alone = [await model.complete(request, MEDIA) for request in requests]
    heard: list[list[str]] = [[] for _ in requests]
    together = await asyncio.gather(
        *(model.complete(request, MEDIA, on_text=heard[at].append) for at, request in enumerate(requests))
    )
    assert all(map(alike, together, alone))
    assert ["".join(pieces) for pieces in heard] == [answer.text for answer in alone]


async def test_cancelling_stops_the_writing(model: LocalModel) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    long = ask("Say", sampling=sampled(tokens=2000))
    running = asyncio.create_task(model.complete(long, MEDIA, on_text=heard.put_nowait))
    waiting = [asyncio.create_task(model.complete(long, MEDIA)) for _ in range(9)]  # one more than are written at once
    await heard.get()
    for task in (running, *waiting):
        task.cancel()
    done = await asyncio.gather(running, *waiting, return_exceptions=True)
    assert [type(outcome) for outcome in done] == [asyncio.CancelledError] * 10
    async with asyncio.timeout(20):
        assert (await model.complete(ask("Say", sampling=sampled(tokens=2)), MEDIA)).token_ids


async def test_a_question_whose_loop_was_closed_disturbs_no_other(model: LocalModel) -> None:
    async def leave() -> None:
        asyncio.get_running_loop().call_later(0.05, asyncio.get_running_loop().stop)
        await model.complete(ask("Say", sampling=sampled(tokens=1500)), MEDIA, on_text=lambda piece: None)

    def gone() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(leave())
        loop.run_forever()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    await asyncio.to_thread(gone)
    assert (await model.complete(ask("Say", sampling=sampled(tokens=5)), MEDIA)).token_ids


async def test_a_listeners_fault_is_its_own(model: LocalModel) -> None:
    def broken(piece: str) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        await model.complete(ask("Say", sampling=sampled(tokens=2000)), MEDIA, on_text=broken)
    assert (await model.complete(ask("Say", sampling=sampled(tokens=2)), MEDIA)).token_ids


async def test_what_it_cannot_take_is_refused(model: LocalModel) -> None:
    flat = VideoPart(sha256="0" * 64, width=2100, height=10, frames=2, fps=1, seconds=2)
    with pytest.raises(ModelRefusedError, match=r"cannot be shown a video: .* 210\.0\. Show frames"):
        await model.complete(ask(flat), MEDIA)
    with pytest.raises(ModelRefusedError, match="function calling"):
        await model.complete(ask("x", tools=(ToolSpec("f", "", {}),)), MEDIA)
    with pytest.raises(ModelRefusedError, match="cannot be shown a picture"):
        await model.complete(ask(MEDIA.put(Image.new("RGB", (2100, 10)))), MEDIA)
    with pytest.raises(SettingsError):
        await model.complete(ask("x", stop=("",)), MEDIA)
    gone = ImagePart(sha256="1" * 64, width=2, height=2)

    class Nothing:
        def get_bytes(self, sha256: str) -> bytes:
            raise MissingMediaError(sha256)

    with pytest.raises(MissingMediaError):
        await model.complete(ask(gone), Nothing())


async def test_a_closed_model_refuses(folders: dict[str, Path]) -> None:
    model = LocalModel(str(folders["qwen3_vl"]))
    asked = asyncio.create_task(model.complete(ask("Say", sampling=sampled(tokens=2000)), MEDIA))
    await asyncio.sleep(0)
    await model.close()
    await model.close()
    for question in (asked, model.complete(ask("Say"), MEDIA)):
        with pytest.raises(ModelRefusedError, match="was closed"):
            await question


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ('{"model_type": "llava"}', "vLLM"),
        ('{"model_type": "internvl_chat", "auto_map": {"AutoConfig": "evil.Config"}}', "-hf"),
        ('{"model_type": "qwen3_vl", "auto_map": {"AutoConfig": "evil.Config"}}', "needs config.json"),
        ("[]", "cannot be loaded"),
        ('{"model_type": "qwen2_5_vl"}', "needs config.json"),
        ("{", "cannot be loaded"),
    ],
)
async def test_a_folder_that_is_no_known_checkpoint(tmp_path: Path, config: str, says: str) -> None:
    (tmp_path / "config.json").write_text(config)
    (tmp_path / "evil.py").write_text("raise SystemExit")
    model = LocalModel(str(tmp_path))
    with pytest.raises(ModelRefusedError, match=says):
        await model.complete(ask(), MEDIA)
    await model.close()


async def test_weights_that_are_broken_or_not_all_there(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(folders["qwen2_5_vl"], folder)
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    del tensors[next(name for name in tensors if name.endswith("layers.0.mlp.up_proj.weight"))]
    save_file(tensors, weights, metadata={"format": "pt"})
    for says in ("lack .*up_proj", "cannot be loaded"):
        model = LocalModel(str(folder))
        with pytest.raises(ModelRefusedError, match=says):
            await model.complete(ask(), MEDIA)
        await model.close()
        weights.write_bytes(weights.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("source", "says"), [("/nowhere/at/all", "there is no folder"), ("nobody/nothing", "hf download nobody/nothing")]
)
async def test_a_checkpoint_that_is_not_there(source: str, says: str) -> None:
    with pytest.raises(ModelRefusedError, match=says):
        await LocalModel(source).complete(ask(), MEDIA)


@pytest.mark.parametrize("settings", [LocalSettings(device="cuda:9"), LocalSettings(dtype="int3")])
async def test_settings_that_cannot_be_had(folders: dict[str, Path], settings: LocalSettings) -> None:
    if settings.device != "auto" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    model = LocalModel(str(folders["qwen2_5_vl"]), settings)
    with pytest.raises(SettingsError):
        await model.complete(ask(), MEDIA)
    await model.close()


async def test_pictures_are_held_to_the_setting(folders: dict[str, Path]) -> None:
    request = ask(MEDIA.put(Image.new("RGB", (224, 224))), sampling=Sampling(max_tokens=1))
    counts = []
    for most in (None, 112 * 112):
        model = LocalModel(str(folders["qwen2_5_vl"]), LocalSettings(max_pixels=most))
        counts.append((await model.complete(request, MEDIA)).usage.prompt_tokens or 0)
        await model.close()
    assert counts[0] - counts[1] == 64 - 16


async def test_an_answer_can_be_continued(model: LocalModel) -> None:
    begun = Request((said("user", "Say"), said("assistant", "Well, \n")), sampling=sampled())
    asked = Request((said("user", "Say"),), sampling=sampled())
    went_on, fresh = [await model.complete(request, MEDIA) for request in (begun, asked)]
    assert (went_on.usage.prompt_tokens or 0) > (fresh.usage.prompt_tokens or 0)
    assert went_on.text != fresh.text


def test_loads_at_once_leave_transformers_as_it_was(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    usual = transformers.PreTrainedModel.tie_weights
    both = threading.Barrier(2)
    load = transformers.AutoModelForImageTextToText.from_pretrained

    def slowly(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.3)  # met only by two loads at once
        return load(*args, **kwargs)

    monkeypatch.setattr(transformers.AutoModelForImageTextToText, "from_pretrained", slowly)
    with ThreadPoolExecutor(2) as threads:
        for loaded in threads.map(load_checkpoint, [str(folders["qwen2_5_vl"])] * 2, [LocalSettings()] * 2):
            assert loaded.model.get_output_embeddings().weight is loaded.model.get_input_embeddings().weight
    assert both.broken
    assert transformers.PreTrainedModel.tie_weights is usual
