"""A tokenizer made from trajectories: whole lines of code and of markup that keep coming back are one token each.

A program of sixty lines that a family of questions always needs is then sixty tokens, and writing it is soon learned.
All else is read in small pieces, so that it can be copied from where it was read to where it is written: a word, a
digit, a sign is a token of its own, and rare words are several (byte-level BPE). Any text comes back exactly.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from saccade.models.tiny import SPECIAL_TOKENS
from saccade.record.action import Code
from saccade.record.content import TextPart
from saccade.record.trajectory import Trajectory
from saccade.sft.tiny.settings import TokenizerSettings

_PIECES = Regex(r"\n[A-Z]\. | [a-z]+|[A-Za-z]+|\d|\s|[^\sA-Za-z\d]")
"""The mark of a choice; small words with the blank before them; words, which are copied, without it; single signs."""
_MARKUP_SHARE = 0.9
"""A line that is not code becomes a token if it is in nearly all trajectories of a kind: it says nothing of its own."""
_QUOTED = re.compile(r"""["']([^"']+)["']""")
QWEN_TOKENS = SPECIAL_TOKENS[:8]
"""What the Qwen2.5-VL family needs, with ids 0, 1, 2, ... in this order."""
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}"
    "{% else %}{% for part in message.content %}"
    "{% if part.type == 'text' %}{{ part.text }}{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML without a system message of its own."""


def make_tokenizer(trajectories: Iterable[Trajectory], settings: TokenizerSettings, context: int) -> Any:
    """The tokenizer for these trajectories, with the chat template; `context` tokens at most."""
    texts: list[str] = []
    code: dict[str, Counter[str]] = defaultdict(Counter)
    markup: dict[str, Counter[str]] = defaultdict(Counter)
    seen: Counter[str] = Counter()
    for trajectory in trajectories:
        kind = f"{trajectory.task.source} in {trajectory.provenance.dialect}"
        seen[kind] += 1
        own = list(_texts(trajectory))
        texts += own
        programs = [turn.action.code for turn in trajectory.turns if isinstance(turn.action, Code)]
        written = {line for program in programs for line in _lines(program)}
        code[kind].update(line for line in written if not _quotes(line, trajectory.task.question))
        markup[kind].update({line for text in own for line in _lines(text)} - written)
    backend = _pieces_tokenizer(_without_lines(texts), settings.vocabulary)
    frequent = sorted(_frequent(code, seen, settings.line_share) | _frequent(markup, seen, _MARKUP_SHARE))
    backend.add_tokens([AddedToken(line, normalized=False, special=False) for line in frequent])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def _texts(trajectory: Trajectory) -> Iterator[str]:
    """Each stretch of text between pictures and turns."""
    shown = [*trajectory.prompt, *(turn.observation for turn in trajectory.turns if turn.observation is not None)]
    for message in shown:
        yield from (part.text for part in message.parts if isinstance(part, TextPart))
    for turn in trajectory.turns:
        yield turn.text


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines(keepends=True) if len(line) > 3)


def _quotes(line: str, question: str) -> bool:
    """Whether a line of code repeats words of the question; then it must be written piece by piece."""
    return any(re.search(rf"\b{re.escape(text)}\b", question, re.IGNORECASE) for text in _QUOTED.findall(line))


def _frequent(lines: dict[str, Counter[str]], seen: Counter[str], share: float) -> set[str]:
    """Lines in at least `share` of the trajectories of a kind."""
    return {line for kind, counts in lines.items() for line, count in counts.items() if count >= share * seen[kind]}


def _without_lines(texts: Iterable[str]) -> Iterator[str]:
    """Code is left out: its lines are tokens already, and its words would crowd out those of questions."""
    for text in texts:
        if "```" not in text:
            yield text


def _pieces_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_PIECES, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=5,
        special_tokens=list(QWEN_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return backend
