"""Families whose templates say what was thought otherwise later: our ids beside those of transformers' own processors.

The templates are written here, in the form that the families publish: what was thought goes when the user speaks again,
an answer without a thought gets an empty one, blanks at the ends of messages go.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
import transformers
from PIL import Image
from tests.tokens.support import encoder
from tests.training.sft.train.support import said, turn

from saccade.errors import TrainingError
from saccade.plugins.worlds import random_checkpoint
from saccade.record.content import Answer, Code, ImagePart, Message, Role, TextPart
from saccade.record.task import Task
from saccade.record.trajectory import FinishReason, Trajectory, Turn
from saccade.tokens.batch import ChatFormatter, token_trajectory
from saccade.tokens.segments import PromptPicture, SegmentKind

# The processors make arrays of tensors.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

SIZES = {"a" * 64: (64, 48), "b" * 64: (300, 40)}
WIDE, FLAT = (ImagePart(sha256=name, width=width, height=height) for name, (width, height) in SIZES.items())
SAID = (
    "{% macro say(c, trim=false) %}{% if c is string %}{{ c }}{% else %}{% for p in c %}{% if p.type == 'text' %}"
    "{{ p.text | trim if trim else p.text }}{% else %}PICTURE{% endif %}{% endfor %}{% endif %}{% endmacro %}"
)
LAST = (
    "{% set ns = namespace(last=-1) %}{% for m in messages %}"
    "{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
)
THOUGHT = (  # what was thought, and what was said after it
    "{% set c = say(m.content) | trim %}{% set r = '' %}{% if '</think>' in c %}"
    "{% set r = c.split('</think>')[0].split('<think>')[-1] | trim %}{% set c = c.split('</think>')[-1].lstrip('\n') %}"
    "{% endif %}"
)
QWEN = (
    SAID.replace("PICTURE", "<|vision_start|><|image_pad|><|vision_end|>")
    + LAST
    + "{% for m in messages %}{% if m.role == 'assistant' %}"
    + THOUGHT
    + "<|im_start|>assistant\n{% if loop.index0 > ns.last %}{{ '<think>\n' + r + '\n</think>\n\n' + c }}"
    "{% else %}{{ c }}{% endif %}<|im_end|>\n"
    "{% elif m.role == 'tool' %}<|im_start|>user\n<tool_response>\n{{ say(m.content) | trim }}\n</tool_response>"
    "<|im_end|>\n{% else %}<|im_start|>{{ m.role }}\n{{ say(m.content) | trim }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\nOPENING{% endif %}"
)
GLM = (
    "[gMASK]<sop>"
    + SAID.replace("PICTURE", "<|begin_of_image|><|image|><|end_of_image|>")
    + LAST
    + "{% for m in messages %}{% if m.role == 'assistant' %}"
    + THOUGHT
    + "<|assistant|>{% if loop.index0 > ns.last and r %}{{ '\n<think>' + r + '</think>' }}"
    "{% else %}{{ '\n<think></think>' }}{% endif %}{% if c %}{{ '\n' + c }}{% endif %}"
    "{% elif m.role == 'tool' %}<|observation|>\n<tool_response>\n{{ say(m.content) }}\n</tool_response>"
    "{% if m.content is string %}{{ '\n' }}{% endif %}"
    "{% else %}<|{{ m.role }}|>\n{{ say(m.content) }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>OPENING{% endif %}"
)
GEMMA = (
    SAID.replace("PICTURE", "EDGE<|image|>EDGE")
    + "{{ bos_token }}{% for m in messages %}<|turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{{ say(m.content, true) if m.content is not string else m.content | trim }}<turn|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn>model\nOPENING{% endif %}"
)
PUBLISHED = {
    "qwen3_5": QWEN.replace("OPENING", "<think>\n"),
    "qwen3_5 closed": QWEN.replace("OPENING", "<think>\n\n</think>\n\n"),
    "glm46v": GLM.replace("OPENING", "{{ '\n' }}"),
    "glm46v bare": GLM.replace("OPENING", ""),
    "glm46v closed": GLM.replace("OPENING", "{{ '\n<think></think>\n' }}"),
    "glm4v": GLM.replace("OPENING", "{{ '\n' }}"),
    "gemma4": GEMMA.replace("OPENING", "<|channel>thought\n<channel|>").replace("EDGE", ""),
    "gemma4 bare": GEMMA.replace("OPENING", "").replace("EDGE", "{{ '\n\n' }}"),
}
PROCESSORS = {
    "qwen3_5": transformers.Qwen3VLProcessor,
    "glm46v": transformers.Glm46VProcessor,
    "glm4v": transformers.Glm4vProcessor,
    "gemma4": transformers.Gemma4Processor,
}


@cache
def processor(which: str) -> Any:
    """The family's own, without a processor of videos, which would want torchvision."""
    family = which.split()[0]
    made = PROCESSORS[family]
    plain = type(made.__name__, (made,), {"check_argument_for_proper_class": lambda self, name, given: type(given)})
    more = {"feature_extractor": None} if family == "gemma4" else {}
    parts = {
        "image_processor": random_checkpoint._image_processor(family),
        "tokenizer": random_checkpoint.tiny_tokenizer(family),
    }
    return plain(**parts, video_processor=None, chat_template=PUBLISHED[which], **more)


def processed(which: str, messages: list[Message], *, generation: bool) -> dict[str, Any]:
    def part(item: Any) -> dict[str, Any]:
        if isinstance(item, TextPart):
            return {"type": "text", "text": item.text}
        return {"type": "image", "image": Image.new("RGB", SIZES[item.sha256], "red")}

    chat = [
        {"role": message.role, "content": [part(item) for item in message.parts] if message.media else message.text}
        for message in messages
    ]
    options = {"tokenize": True, "return_dict": True, "return_tensors": "pt", "processor_kwargs": {}}
    made: dict[str, Any] = processor(which).apply_chat_template(chat, add_generation_prompt=generation, **options)
    return made


def ours(which: str, messages: list[Message]) -> list[int]:
    one = encoder(which.split()[0], PUBLISHED[which])
    ids, _ = one.encode(ChatFormatter(one, "test").prompt_pieces(messages, first=True))
    return list(ids)


ASKED = [said("system", " Look closely.\n"), said("user", " First: ", WIDE, "\nSecond: ", FLAT, "What is it?\n")]


@pytest.mark.parametrize("which", PUBLISHED)
def test_a_prompt_has_the_ids_of_the_processor(which: str) -> None:
    for messages in (ASKED, ASKED[1:], [said("user", "  Well?\n")]):
        assert ours(which, messages) == processed(which, messages, generation=True)["input_ids"][0].tolist()


# What stays as it was written, turn by turn: answers that a tool answers, and Gemma's that never think.
GROWING = {
    "qwen3_5": ("tool", "I crop.\n</think>\n\n<code>1</code>"),
    "qwen3_5 closed": ("tool", "<code>1</code>"),
    "glm46v": ("tool", "<think>I crop.</think>\n<code>1</code>"),
    "glm46v bare": ("tool", "\n<think>I crop.</think>\n<code>1</code>"),
    "glm46v closed": ("tool", "<code>1</code>"),
    "glm4v": ("tool", "<think></think>\n<code>1</code>"),
    "gemma4 bare": ("user", "<code>1</code>"),
}


@pytest.mark.parametrize("which", GROWING)
@pytest.mark.parametrize("shown", [("1\n", WIDE, "Go on."), ("1",)])
def test_an_episode_has_the_ids_of_the_processor(which: str, shown: tuple[Any, ...]) -> None:
    role, text = GROWING[which]
    one = encoder(which.split()[0], PUBLISHED[which])
    observation = said(role, *shown)
    turns = (turn(text, Code(code="1"), observation), turn(text, Answer(text="1")))
    episode = Trajectory(id="t", task=Task(id="t", question="?"), prompt=tuple(ASKED), turns=turns)
    made = token_trajectory(episode, one)
    messages = [*ASKED, turns[0].message, observation]
    before = processed(which, messages, generation=True)["input_ids"][0].tolist()
    assert made.ids().tolist() == [*before, *one.text(text), one.end_id]
    assert ours(which, messages) == before


def test_a_turn_of_text_alone_has_the_thought_that_the_template_gives_it() -> None:
    for which, text, expected in (
        ("qwen3_5", "<answer>1</answer>", "\n</think>\n\n<answer>1</answer>"),
        ("qwen3_5", "<think> a\nb </think>\n<answer>", "a\nb\n</think>\n\n<answer>"),
        ("qwen3_5", "a</think>b", "a\n</think>\n\nb"),
        ("qwen3_5 closed", "<think>a</think>b", "<think>a</think>b"),
        ("glm46v", "<answer>1</answer>", "<think></think>\n<answer>1</answer>"),
        ("glm46v", "<think>a</think>b", "<think>a</think>b"),
        ("glm46v bare", "<answer>", "\n<think></think>\n<answer>"),
        ("glm46v closed", "<answer>", "<answer>"),
        ("gemma4", "<answer>", "<answer>"),
    ):
        one = encoder(which.split()[0], PUBLISHED[which])
        corrected = Trajectory(
            id="t", task=Task(id="t", question="?"), prompt=(said("user", "?"),), turns=(turn(text, Answer(text="1")),)
        )
        assert one.decode(token_trajectory(corrected, one).segments[1].ids[:-1]) == expected


@pytest.mark.parametrize("follows", ["user", "tool", "assistant", None])
@pytest.mark.parametrize("ended", ["<|user|>", "<|observation|>", "<|endoftext|>", ""])
def test_a_turn_of_glm_ends_with_who_speaks_next(follows: Role | None, ended: str) -> None:
    """What the model sampled stays if it is read; the token of another one goes, and the next message has its own."""
    one = encoder("glm46v", PUBLISHED["glm46v"])
    ids = (*one.text("Hm."), *([one._vocabulary[ended]] if ended else []))
    first = Turn(
        text="Hm.",
        token_ids=ids,
        logprobs=(-0.5,) * len(ids),
        action=Code(code="1"),
        finish_reason=FinishReason.STOP if ended else FinishReason.LENGTH,
        observation=said(follows, "x") if follows else None,
    )
    turns = (first, turn("c", Answer(text="c"))) if follows else (first,)
    episode = Trajectory(id="t", task=Task(id="t", question="?"), prompt=(said("user", "?"),), turns=turns)
    made = token_trajectory(episode, one)
    own = {"user": "<|user|>", "tool": "<|observation|>"}.get(follows or "")
    stays = ended if follows is None or ended == own else ""
    assert one.decode(made.segments[1].ids) == "Hm." + stays
    shown = {
        "user": "<|user|>\nx<|assistant|>\n",
        "tool": "<|observation|>\n<tool_response>\nx\n</tool_response>\n<|assistant|>\n",
        "assistant": "x",
    }
    if follows:
        joined = "".join(one.decode(segment.ids) for segment in made.segments[1:3])
        assert joined == "Hm." + shown[follows]
        assert made.segments[2].kind is SegmentKind.OBSERVATION


@pytest.mark.parametrize("which", ["qwen3_5", "glm46v", "glm4v", "gemma4"])
def test_a_forward_pass_is_that_over_the_processors_inputs(which: str) -> None:
    family = which.split()[0]
    one = encoder(family, PUBLISHED[which])
    torch.manual_seed(0)
    config = random_checkpoint._config(family, len(one._tokenizer))
    model = transformers.AutoModelForImageTextToText.from_config(config).eval()
    inputs = processed(which, ASKED, generation=True)
    made = one.image_processor(
        images=[Image.new("RGB", SIZES[part.sha256], "red") for part in (WIDE, FLAT)], return_tensors="pt"
    )
    ids = torch.tensor([ours(which, ASKED)])
    kinds = (ids == one.placeholder_id).int()
    tensors = {name: made[name] for name in one.family.tensor_names}
    if one.family.rope_axes == 3:
        tensors["position_ids"], _ = model.model.get_rope_index(
            ids, mm_token_type_ids=kinds, image_grid_thw=made["image_grid_thw"]
        )
    if one.family.type_ids:
        tensors["mm_token_type_ids"] = kinds
    with torch.no_grad():
        torch.testing.assert_close(model(input_ids=ids, **tensors).logits, model(**inputs).logits)
    pictures = one.encode(ChatFormatter(one, "test").prompt_pieces(ASKED, first=True))[1]
    assert pictures == tuple(
        PromptPicture(part, count) for part, count in zip((WIDE, FLAT), one.family.features(made, config), strict=True)
    )


def test_a_template_that_writes_another_frame_is_refused() -> None:
    for which, old, new in (
        ("qwen3_5", "<think>\n{% endif %}", "<thought>\n{% endif %}"),
        ("qwen3_5", "<|vision_start|>", ""),
        ("glm46v", "[gMASK]", ""),
        ("glm46v", "<|{{ m.role }}|>\n", "<|{{ m.role }}|>"),
        ("gemma4", "<|turn>model\n", "<|turn>assistant\n"),
        ("gemma4", "<|image|>", " <|image|> "),
        ("gemma4", "{{ bos_token }}", "{{ bos_token }}{{ raise_exception('no') }}"),
    ):
        assert old in PUBLISHED[which]
        with pytest.raises(TrainingError, match="chat template"):
            encoder(which, PUBLISHED[which].replace(old, new))
