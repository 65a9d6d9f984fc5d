"""The frames against chat templates that say what the families' own say, and what is refused."""

import re
from typing import Any

import numpy as np
import pytest
from tests.tokens.support import FAMILIES, SPECIAL, encoder, features
from tests.training.sft.train.support import said, turn

from saccade.errors import TrainingError
from saccade.plugins.worlds import random_checkpoint
from saccade.record.content import Answer, Code, ImagePart, Message, TextPart, ToolCall, VideoPart
from saccade.record.task import Task
from saccade.record.trajectory import FinishReason, Trajectory, Turn
from saccade.tokens.batch import token_trajectory
from saccade.tokens.encoder import Encoder
from saccade.tokens.segments import PromptPicture, SegmentKind, TokenSegment, TokenTrajectory, truncate

PART = ImagePart(sha256="a" * 64, width=64, height=48)
CONTENT = (
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{% if p.type == 'text' %}{{ p.text }}{% else %}PICTURE{% endif %}{% endfor %}{% endif %}"
)
QWEN_PICTURE = "<|vision_start|><|image_pad|><|vision_end|>"
PLAIN = "<|im_start|>{{ m.role }}\n" + CONTENT + "<|im_end|>\n"
GENERATION = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
# Written here to say what the published templates say about these messages.
TEMPLATES = {
    "qwen2_5_vl": (
        "{% for m in messages %}{% if loop.first and m.role != 'system' %}<|im_start|>system\n"
        "You are a helpful assistant.<|im_end|>\n{% endif %}" + PLAIN + "{% endfor %}" + GENERATION
    ).replace("PICTURE", QWEN_PICTURE),
    "qwen3_vl": (
        "{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>user\n<tool_response>\n"
        + CONTENT
        + "{{ '\n' }}</tool_response><|im_end|>\n{% else %}"
        + PLAIN
        + "{% endif %}{% endfor %}"
        + GENERATION
    ).replace("PICTURE", QWEN_PICTURE),
    "internvl": ("{% for m in messages %}" + PLAIN + "{% endfor %}" + GENERATION).replace("PICTURE", "<IMG_CONTEXT>\n"),
}
TEMPLATES["qwen3_vl_moe"] = TEMPLATES["qwen3_vl"]


def templated(message: Message) -> dict[str, Any]:
    parts = [
        {"type": "text", "text": part.text} if isinstance(part, TextPart) else {"type": "image"}
        for part in message.parts
    ]
    return {"role": message.role, "content": parts}


def as_processors_do(family: str, messages: list[Message]) -> list[int]:
    """The rendered template with each placeholder repeated, tokenised as one text."""
    one = encoder(family, TEMPLATES[family])
    text = one._tokenizer.apply_chat_template([templated(message) for message in messages], tokenize=False)
    placeholder = one.family.placeholder
    for part in (part for message in messages for part in message.media):
        several = "\0" * features(family, part.width, part.height)
        both = ("<img>" + several + "</img>") if family == "internvl" else several
        text = text.replace(placeholder, both, 1)
    ids: list[int] = one._tokenizer.encode(text.replace("\0", placeholder), add_special_tokens=False)
    return ids


@pytest.mark.parametrize("family", TEMPLATES)
@pytest.mark.parametrize("system", [True, False])
@pytest.mark.parametrize("role", ["user", "tool"])
def test_the_ids_are_those_of_the_chat_template(family: str, system: bool, role: str) -> None:
    one = encoder(family, TEMPLATES[family])
    one._tokenizer.chat_template = TEMPLATES[family]
    prompt = [said("user", "First: ", PART, "\nSecond: ", PART, "What is it?\n\nSay it.")]
    if system:
        prompt.insert(0, said("system", "Look closely.\n"))
    turns = (
        turn("<code>\nprint(1)\n</code>", Code(code="print(1)"), said(role, "1\n", PART, "Go on.")),
        turn("<answer>It is red.</answer>", Answer(text="It is red.")),
    )
    trajectory = Trajectory(id="t", task=Task(id="t", question="?"), prompt=tuple(prompt), turns=turns)
    messages = [*prompt, turns[0].message, said(role, "1\n", PART, "Go on."), turns[1].message]
    expected = as_processors_do(family, messages)
    line_break = one.text("\n")
    assert tuple(expected[-len(line_break) :]) == line_break  # which nobody writes
    assert token_trajectory(trajectory, one).ids().tolist() == expected[: -len(line_break)]


def trajectory_of(*turns: Turn, prompt: tuple[Message, ...] = (said("user", "Look."),)) -> Trajectory:
    return Trajectory(id="t7", task=Task(id="t", question="?"), prompt=prompt, turns=turns)


def test_an_observation_of_the_assistant_continues_its_message() -> None:
    one = encoder("qwen2_5_vl")
    ids = (*one.text("<code>1</code>"), one.end_id)
    first = turn("<code>1</code>", Code(code="1"), said("assistant", "<out>1</out>")).model_copy(
        update={"token_ids": ids, "logprobs": (-1.0,) * len(ids), "finish_reason": FinishReason.STOP}
    )
    made = token_trajectory(trajectory_of(first, turn("<answer>1</answer>", Answer(text="1"))), one)
    assert one.decode(made.ids().tolist()) == (
        "<|im_start|>user\nLook.<|im_end|>\n<|im_start|>assistant\n"
        "<code>1</code><out>1</out><answer>1</answer><|im_end|>"
    )
    assert [one.decode(segment.ids) for segment in made.segments if segment.kind is SegmentKind.SAMPLED] == [
        "<code>1</code>",
        "<answer>1</answer><|im_end|>",
    ]
    assert made.segments[1].logprobs == (-1.0,) * (len(ids) - 1)


def test_ids_that_were_sampled_are_kept_and_others_refused() -> None:
    one = encoder("internvl")
    text = "<answer>red</answer>"
    cut_otherwise = tuple(one.text(character)[0] for character in text)
    assert cut_otherwise != one.text(text)
    plain = turn(text, Answer(text="red"))
    kept = trajectory_of(plain.model_copy(update={"token_ids": (*cut_otherwise, one.end_id)}))
    assert token_trajectory(kept, one).segments[1].ids == (*cut_otherwise, one.end_id)
    assert token_trajectory(kept, one, "text").segments[1].ids == (*one.text(text), one.end_id)
    with pytest.raises(TrainingError, match=r"turn 0 of t7 .*tokenizer"):
        token_trajectory(trajectory_of(plain.model_copy(update={"token_ids": (70, 71)})), one)
    forged = (*cut_otherwise, one.placeholder_id)
    with pytest.raises(TrainingError, match="<IMG_CONTEXT>"):
        token_trajectory(trajectory_of(plain.model_copy(update={"token_ids": forged})), one)
    several = tuple(sorted(one.reserved_ids))
    named = re.escape(f"the model sampled {one.decode(several[:1])}, which only a prompt")
    with pytest.raises(TrainingError, match=named):
        token_trajectory(trajectory_of(plain.model_copy(update={"token_ids": (*cut_otherwise, *several)})), one)


@pytest.mark.parametrize("family", FAMILIES)
def test_spelled_reserved_tokens_are_text_and_what_stands_around_them_stays(family: str) -> None:
    check_spelled(encoder(family), *SPECIAL)


def test_a_reserved_token_that_the_tokenizer_does_not_call_special_is_text_too() -> None:
    tokenizer = random_checkpoint.tiny_tokenizer("internvl")
    tokenizer.add_tokens(["<video>"])
    config = random_checkpoint._config("internvl", len(tokenizer))
    one = Encoder(
        "some-model", tokenizer, random_checkpoint._image_processor("internvl"), config, tokenizer.chat_template
    )
    assert tokenizer.convert_tokens_to_ids("<video>") in one.reserved_ids
    check_spelled(one, "<video>", "<img>")


def check_spelled(one: Encoder, *names: str) -> None:
    for name in names:
        text = f"before {name}{name} between {name} after"
        ids = one.text(text)
        assert one.decode(list(ids)) == text
        assert one.reserved_ids.isdisjoint(ids)


def test_what_has_no_token_form_is_refused_by_name() -> None:
    one = encoder("qwen3_vl")
    answer = turn("x", Answer(text="x"))
    clip = VideoPart(sha256="c" * 64, width=64, height=64, frames=30, fps=10.0, seconds=3.0)
    called = turn("", ToolCall(name="crop", arguments={}), said("tool", "1")).model_copy(
        update={"calls": (ToolCall(name="crop", arguments={}),)}
    )
    with pytest.raises(TrainingError, match=r"internvl cannot be shown a video.*internvl reads no videos"):
        token_trajectory(trajectory_of(answer, prompt=(Message(role="user", parts=(clip,)),)), encoder("internvl"))
    with pytest.raises(TrainingError, match="no turn"):
        token_trajectory(trajectory_of(), one)
    called_prompt = (said("user", "?"), called.message)
    with pytest.raises(TrainingError, match="function calling"):
        token_trajectory(trajectory_of(answer, prompt=called_prompt), one)
    thin = ImagePart(sha256="a" * 64, width=4000, height=10)
    with pytest.raises(TrainingError, match="4000x10"):
        token_trajectory(trajectory_of(answer, prompt=(said("user", thin),)), one)


def test_a_checkpoint_that_does_not_fit_is_refused_by_name() -> None:
    tokenizer, processor = random_checkpoint.tiny_tokenizer(), random_checkpoint._image_processor("qwen2_5_vl")
    config = random_checkpoint._config("qwen2_5_vl", len(tokenizer))

    def make(template: str = tokenizer.chat_template) -> Encoder:
        return Encoder("some-model", tokenizer, processor, config, template)

    with pytest.raises(TrainingError, match=r"chat template of some-model .*qwen2_5_vl"):
        make("{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}")
    with pytest.raises(TrainingError, match="chat template"):
        make(tokenizer.chat_template.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}"))
    with pytest.raises(TrainingError, match="chat template"):  # what it makes of an answer that was given
        make(
            PLAIN.join(["{% for m in messages %}{% if m.role == 'assistant' %}Reply: {% endif %}", "{% endfor %}"])
            + GENERATION
        )
    config.model_type = "llava"
    with pytest.raises(TrainingError, match=r"some-model is of the family 'llava'.*qwen3_vl"):
        make()


def test_truncation_never_takes_the_prompt() -> None:
    full = TokenTrajectory(
        "t", (TokenSegment(SegmentKind.PROMPT, (1,) * 10), TokenSegment(SegmentKind.SAMPLED, (2,) * 5, turn=0))
    )
    assert truncate(full, 15) == full
    with pytest.raises(TrainingError, match=r"15 tokens.*limit of 14"):
        truncate(full, 14)
    shown = TokenTrajectory("t", (*full.segments, TokenSegment(SegmentKind.OBSERVATION, (3,))))
    assert truncate(shown, 99) == full


def test_segments_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValueError, match="log-prob"):
        TokenSegment(SegmentKind.SAMPLED, (1, 2), turn=0, logprobs=(0.5,))
    with pytest.raises(ValueError, match="turn"):
        TokenSegment(SegmentKind.OBSERVATION, (1,), turn=0)
    with pytest.raises(ValueError, match="prompt"):
        TokenTrajectory("t", (TokenSegment(SegmentKind.OBSERVATION, (1,)),))
    with pytest.raises(ValueError, match=r"one prompt; t has \['prompt', 'prompt'\]"):
        TokenTrajectory("t", (TokenSegment(SegmentKind.PROMPT, (1,)), TokenSegment(SegmentKind.PROMPT, (1,))))


class Changed:
    """A tokenizer with other attributes."""

    def __init__(self, tokenizer: Any, **attributes: Any) -> None:
        self._tokenizer = tokenizer
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


def test_a_tokenizer_that_does_not_fit_is_refused_by_name() -> None:
    tokenizer, processor = random_checkpoint.tiny_tokenizer(), random_checkpoint._image_processor("qwen2_5_vl")
    config = random_checkpoint._config("qwen2_5_vl", len(tokenizer))
    words = tokenizer.get_vocab()
    for missing in ("<|im_end|>", "<|image_pad|>"):
        known = {word: number for word, number in words.items() if word != missing}
        changed = Changed(tokenizer, get_vocab=lambda known=known: known)
        with pytest.raises(TrainingError, match="tokenizer of some-model lacks") as caught:
            Encoder("some-model", changed, processor, config, tokenizer.chat_template)
        assert missing in str(caught.value)
    with pytest.raises(TrainingError, match="no fast backend"):
        Encoder("some-model", Changed(tokenizer, backend_tokenizer=None), processor, config, tokenizer.chat_template)


def test_a_tokenizer_that_cuts_and_pads_is_read_without_both() -> None:
    tokenizer, text = random_checkpoint.tiny_tokenizer(), "twelve words or so, which are more than four tokens"
    tokenizer.backend_tokenizer.enable_truncation(4)
    tokenizer.backend_tokenizer.enable_padding(length=200)
    config = random_checkpoint._config("qwen2_5_vl", len(tokenizer))
    one = Encoder(
        "some-model", tokenizer, random_checkpoint._image_processor("qwen2_5_vl"), config, tokenizer.chat_template
    )
    assert one.text(text) == encoder("qwen2_5_vl").text(text)


def test_padding_ends_and_context_are_those_of_the_checkpoint() -> None:
    tokenizer, processor = random_checkpoint.tiny_tokenizer(), random_checkpoint._image_processor("qwen2_5_vl")
    config = random_checkpoint._config("qwen2_5_vl", len(tokenizer))
    config.get_text_config().max_position_embeddings = 77
    for pad, eos, expected in ((5, 9, 5), (0, None, 0), (None, 9, tokenizer.convert_tokens_to_ids("<|im_end|>"))):
        changed = Changed(tokenizer, pad_token_id=pad, eos_token_id=eos)
        one = Encoder("some-model", changed, processor, config, tokenizer.chat_template)
        assert one.pad_id == expected
        assert one.end_ids == {one.end_id, eos} - {None}
        assert one.context_tokens == 77


def test_truncation_ends_with_the_last_turn_that_fits() -> None:
    parts = (TokenSegment(SegmentKind.PROMPT, (1,) * 3), TokenSegment(SegmentKind.SAMPLED, (2,) * 2, turn=0))
    parts += (TokenSegment(SegmentKind.OBSERVATION, (3,) * 4), TokenSegment(SegmentKind.SAMPLED, (4,), turn=1))
    full = TokenTrajectory("t", parts)
    for most, kept in ((99, 4), (10, 4), (9, 2), (6, 2), (5, 2)):
        assert truncate(full, most).segments == parts[:kept]
    with pytest.raises(TrainingError, match=r"prompt and first turn of t take 5 tokens, over the limit of 4"):
        truncate(full, 4)


def test_arrays_of_a_trajectory_by_hand() -> None:
    shown = (PromptPicture(PART, 1), PromptPicture(PART, 2))
    parts = (
        TokenSegment(SegmentKind.PROMPT, (7, 8), shown[:1]),
        TokenSegment(SegmentKind.SAMPLED, (9,), turn=0, logprobs=(-0.5,)),
        TokenSegment(SegmentKind.OBSERVATION, (5,), shown[1:]),
        TokenSegment(SegmentKind.SAMPLED, (6, 4), turn=1),
    )
    tokens = TokenTrajectory("t", parts)
    assert tokens.ids().tolist() == [7, 8, 9, 5, 6, 4]
    assert tokens.turns().tolist() == [-1, -1, 0, -1, 1, 1]
    assert tokens.loss_mask().tolist() == [False, False, True, False, True, True]
    assert tokens.logprobs()[2] == -0.5
    assert np.isnan(tokens.logprobs()[[0, 1, 3, 4, 5]]).all()
    assert (tokens.pictures, [part.visual for part in parts]) == (shown, [1, 0, 2, 0])
    with pytest.raises(ValueError, match="does not write pictures"):
        TokenSegment(SegmentKind.SAMPLED, (1,), shown, turn=0)
    with pytest.raises(ValueError, match="one prompt"):
        TokenTrajectory("t", (*parts, parts[0]))
    with pytest.raises(ValueError, match="belongs to a turn"):
        TokenSegment(SegmentKind.SAMPLED, (1,))


def test_a_turn_that_was_cut_has_no_end_and_the_next_message_closes_it() -> None:
    one = encoder("qwen2_5_vl")
    cut = turn("ab", Code(code="1"), said("user", "x")).model_copy(update={"finish_reason": FinishReason.LENGTH})
    full = turn("ab", Code(code="1"), said("user", "x"))
    for first, sampled in ((cut, "ab"), (full, "ab<|im_end|>")):
        made = token_trajectory(trajectory_of(first, turn("c", Answer(text="c"))), one)
        assert one.decode(made.segments[1].ids) == sampled
        assert one.decode(made.ids().tolist()).endswith(
            "<|im_start|>assistant\nab<|im_end|>\n<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\nc<|im_end|>"
        )
