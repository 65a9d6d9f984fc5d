"""Our token ids beside those of Prime Intellect's `renderers`, for Qwen3-VL, which both know; `make parity` runs it.

The tokenizer is a tiny one to which the marks of the tool form are added, as the family's own tokenizer has them.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.training.sft.train.support import said

pytest.importorskip("torch")
renderers: Any = pytest.importorskip("renderers.qwen3_vl", reason="`make parity` installs renderers")

from saccade.plugins.worlds import random_checkpoint
from saccade.record.content import ImagePart, Message, ParseError, TextPart
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory, Turn
from saccade.tokens.batch import token_trajectory
from saccade.tokens.encoder import Encoder

pytestmark = pytest.mark.slow

FAMILY = "qwen3_vl"
MARKS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
TOKENIZER = random_checkpoint.tiny_tokenizer(FAMILY)
TOKENIZER.add_tokens(MARKS)
PROCESSOR = random_checkpoint._image_processor(FAMILY)
OURS = Encoder("tiny", TOKENIZER, PROCESSOR, random_checkpoint._config(FAMILY, len(TOKENIZER)), TOKENIZER.chat_template)
THEIRS = renderers.Qwen3VLRenderer(TOKENIZER, processor=SimpleNamespace(image_processor=PROCESSOR))

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters="<>"), min_size=1).map(
    lambda text: f"a{text}b"  # templates strip the ends of some messages
)
pictures = st.sampled_from([(64, 48), (200, 120), (33, 90)]).map(
    lambda size: ImagePart(sha256="0" * 64, width=size[0], height=size[1])
)
contents = st.lists(texts | pictures, min_size=1, max_size=4)


def theirs(message: Message) -> dict[str, Any]:
    """The message as renderers takes it."""
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image", "image": Image.new("RGB", (part.width, part.height))}
        for part in message.parts
        if isinstance(part, TextPart | ImagePart)
    ]
    return {"role": message.role, "content": parts if message.media else message.text}


@given(st.none() | texts, contents, st.lists(st.tuples(texts, st.sampled_from(["user", "tool"]), contents), max_size=3))
def test_an_episode_has_the_ids_that_renderers_gives_it(
    system: str | None, asked: list[str | ImagePart], looks: list[tuple[str, str, list[str | ImagePart]]]
) -> None:
    prompt = (*(() if system is None else (said("system", system),)), said("user", *asked))
    shown = [said(role, *content) for _, role, content in looks]
    written = [text for text, _, _ in looks]
    turns = [
        Turn(text=text, action=ParseError(reason="none"), observation=after)
        for text, after in zip(written, shown, strict=True)
    ]
    turns.append(Turn(text="<think>Enough.</think>It is 3.", action=ParseError(reason="none")))
    episode = Trajectory(id="t#0", task=Task(id="t", question="?"), prompt=prompt, turns=tuple(turns))
    messages = [theirs(message) for message in prompt]
    for text, after in zip(written, shown, strict=True):
        messages += [{"role": "assistant", "content": text}, theirs(after)]
    before = THEIRS.render_ids(messages, add_generation_prompt=True)
    last = (*OURS.text(turns[-1].text), OURS.end_id)
    assert token_trajectory(episode, OURS).ids().tolist() == [*before, *last]
