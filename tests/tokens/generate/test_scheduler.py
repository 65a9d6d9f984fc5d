"""What the scheduler keeps from turn to turn, and that nothing of it shows in an answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.models.helpers import Media, said
from tests.tiny import tiny_folder

from saccade.errors import MissingMediaError, ModelRefusedError
from saccade.models.base import Request
from saccade.record.content import ImagePart, Message
from saccade.record.trajectory import Sampling
from saccade.tokens.segments import PromptPicture

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.tokens.generate.support import NEWER, Asked, Passes, answered, each_family

from saccade.models.local_text import LocalSettings
from saccade.models.local_weights import Checkpoint, load_checkpoint
from saccade.plugins.worlds.tiny import tiny_weights
from saccade.tokens.decoder import PlainPolicy, Scheduler, shared_length
from saccade.tokens.prompt import Prompt, build_prompt

MEDIA = Media()
PICTURES = [MEDIA.put(Image.effect_noise((112, 56 + 28 * (n % 3)), 30 + 9 * n).convert("RGB")) for n in range(12)]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module", params=[*each_family(*NEWER), "saccade-tiny"])
def checkpoint(request: pytest.FixtureRequest) -> Checkpoint:
    if request.param == "saccade-tiny":
        return load_checkpoint(str(tiny_weights()), LocalSettings())
    return load_checkpoint(str(tiny_folder(request.param)), LocalSettings())


@pytest.fixture(scope="module")
def qwen() -> Checkpoint:
    return load_checkpoint(str(tiny_folder()), LocalSettings())


def turns(number: int, count: int = 3) -> list[tuple[Message, ...]]:
    """The messages before each turn of an episode, what the model wrote being made up."""
    messages = (said("system", "Look."), said("user", "What is ", PICTURES[number], "this?"))
    found = [messages]
    for turn in range(1, count):
        shown = said("user", "Here: ", PICTURES[(number + turn) % 12], "\nContinue.")
        messages = (*messages, said("assistant", f"I look {number} {turn}."), shown)
        found.append(messages)
    return found


def greedy(messages: tuple[Message, ...]) -> Request:
    return Request(messages, sampling=Sampling(max_tokens=12))


def fresh(checkpoint: Checkpoint) -> Scheduler:
    """One that has read nothing yet."""
    return Scheduler(PlainPolicy(checkpoint), most_sequences=1)


def same(one: object, other: object) -> None:
    assert one.ids == other.ids  # type: ignore[attr-defined]
    assert one.text == other.text  # type: ignore[attr-defined]
    assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)  # type: ignore[attr-defined]


@pytest.mark.few(1)
def test_turns_and_company_change_no_token(checkpoint: Checkpoint) -> None:
    episodes = [turns(number) for number in range(4)]
    alone = [[answered(fresh(checkpoint), MEDIA, greedy(m))[0] for m in one] for one in episodes]
    for most in (1, 3):
        scheduler = Scheduler(PlainPolicy(checkpoint), most_sequences=most)
        for turn in range(3):
            for first in range(0, 4, most):
                part = range(first, min(4, first + most))
                made = answered(scheduler, MEDIA, *(greedy(episodes[number][turn]) for number in part))
                for number, one in zip(part, made, strict=True):
                    same(one, alone[number][turn])


def test_a_turn_reads_only_what_is_new(qwen: Checkpoint) -> None:
    scheduler = Scheduler(PlainPolicy(qwen), most_sequences=2)
    first = greedy((said("user", PICTURES[0], "What is this?"),))
    (made,) = answered(scheduler, MEDIA, first)
    text = qwen.tokenizer.decode(made.ids, skip_special_tokens=True)
    more = greedy((*first.messages, said("assistant", text or "."), said("user", "And ", PICTURES[1], "this?")))
    new = len(build_prompt(more, qwen).ids) - len(build_prompt(first, qwen).ids)
    with Passes(qwen) as passes:
        answered(scheduler, MEDIA, more)
    assert passes.shapes[0][0] == 1
    assert passes.shapes[0][1] <= new


def test_equal_prompts_are_read_once(qwen: Checkpoint) -> None:
    scheduler = Scheduler(PlainPolicy(qwen), most_sequences=4)
    sampled = [Request(turns(1)[0], sampling=Sampling(temperature=1.0, seed=seed, max_tokens=12)) for seed in range(4)]
    with Passes(qwen) as passes:
        together = answered(scheduler, MEDIA, *sampled)
    read = len(build_prompt(sampled[0], qwen).ids)
    assert passes.shapes[:4] == [(1, read), (1, 1), (1, 1), (1, 1)]
    assert max(rows for rows, _ in passes.shapes) == 4
    assert len({one.ids for one in together}) > 1
    for request, one in zip(sampled, together, strict=True):
        same(answered(fresh(qwen), MEDIA, request)[0], one)


def test_what_is_wrong_with_one_disturbs_no_other(qwen: Checkpoint) -> None:
    scheduler = Scheduler(PlainPolicy(qwen), most_sequences=4)
    fine = Asked(scheduler, greedy(turns(0)[0]), MEDIA)

    class Nothing(Media):
        def get_bytes(self, sha256: str) -> bytes:
            raise MissingMediaError(sha256)

    gone = Asked(scheduler, greedy((said("user", ImagePart(sha256="1" * 64, width=56, height=56)),)), Nothing())
    lies = MEDIA.stored[PICTURES[1].sha256]
    other = Media()
    other.stored["2" * 64] = lies
    false = Asked(scheduler, greedy((said("user", ImagePart(sha256="2" * 64, width=28, height=280)),)), other)
    with pytest.raises(MissingMediaError):
        _ = gone.turn
    with pytest.raises(ModelRefusedError, match="not of the size"):
        _ = false.turn
    while not scheduler.is_idle:
        scheduler.step()
    same(fine.turn, answered(fresh(qwen), MEDIA, greedy(turns(0)[0]))[0])
    same(answered(scheduler, MEDIA, greedy(turns(2)[1]))[0],
         answered(fresh(qwen), MEDIA, greedy(turns(2)[1]))[0])  # fmt: skip


def test_a_pass_that_fails_ends_what_it_was_for_and_is_forgotten(qwen: Checkpoint) -> None:
    scheduler = Scheduler(PlainPolicy(qwen), most_sequences=2)
    asked = [Asked(scheduler, greedy(turns(number)[0]), MEDIA) for number in range(2)]

    def full(*args: object) -> None:
        raise torch.OutOfMemoryError

    hook = qwen.model.model.register_forward_pre_hook(full)
    scheduler.step()
    hook.remove()
    for one in asked:
        with pytest.raises(ModelRefusedError, match="no memory left"):
            _ = one.turn
    assert scheduler.is_idle
    same(*(answered(s, MEDIA, greedy(turns(0)[0]))[0] for s in (scheduler, fresh(qwen))))


def test_numbers_that_overflow_are_not_kept(qwen: Checkpoint) -> None:
    scheduler = Scheduler(PlainPolicy(qwen), most_sequences=2)
    head = qwen.model.get_output_embeddings()
    hook = head.register_forward_hook(lambda module, args, out: out * float("nan"))
    with pytest.raises(ModelRefusedError, match="overflowed"):
        answered(scheduler, MEDIA, greedy(turns(0)[0]))
    hook.remove()
    assert scheduler.is_idle
    with Passes(qwen) as passes:
        answered(scheduler, MEDIA, greedy(turns(0)[0]))
    assert passes.shapes[0] == (1, len(build_prompt(greedy(turns(0)[0]), qwen).ids))


PART = {name: ImagePart(sha256=name * 64, width=56, height=56) for name in "abc"}


def prompt_of(text: str) -> Prompt:
    """Small letters a, b, c are pictures of three tokens (7), other characters a token each."""
    ids: list[int] = []
    pictures, places = [], []
    for character in text:
        if character in PART:
            ids.append(1)  # the mark in front
            places.append(len(ids))
            pictures.append(PromptPicture(PART[character], 3))
            ids += [7, 7, 7]
        else:
            ids.append(ord(character))
    return Prompt(tuple(ids), tuple(pictures), tuple(places), tuple(place + 3 for place in places))


@given(st.text("XYabc", max_size=8), st.text("XYabc", min_size=1, max_size=8))
def test_what_two_prompts_share(before: str, now: str) -> None:
    one, other = prompt_of(before), prompt_of(now + "Z")
    length = shared_length(one, list(one.ids), other)
    pairs = enumerate(zip(before, now, strict=False))
    common = next((at for at, (x, y) in pairs if x != y), min(len(before), len(now)))
    common_length = len(prompt_of(before[:common]).ids)
    assert length <= len(other.ids) - 1
    assert one.ids[:length] == other.ids[:length]
    for at, picture in zip(other.places, other.pictures, strict=True):
        assert not at <= length < at + picture.tokens
        assert at >= length or (at, picture) in zip(one.places, one.pictures, strict=True)
    assert length >= common_length - 1 or length == common_length
