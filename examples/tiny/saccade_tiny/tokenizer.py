"""A tokenizer made from trajectories: lines that keep coming back, joined to those they belong to, are one token each.

Lines of code and of markup, that is; two belong together if one hardly comes without the other. A function that
programs of a family of questions always need is then one token, and writing it is soon learned. How a turn begins is
one token too, and how a line begins that says what was seen. All else is read in small pieces, so that it can be copied
from where it was read to where it is written: a word, a digit, a sign is a token of its own, and rare words are several
(byte-level BPE). Any text comes back exactly.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from saccade.plugins.worlds.random_checkpoint import SPECIAL_TOKENS
from saccade.record.content import Code, TextPart
from saccade.record.trajectory import Trajectory
from saccade_tiny.settings import TokenizerSettings

_PIECES = Regex(r"\n[A-Z]\. | [a-z]+|[A-Za-z]+|\d|\s|[^\sA-Za-z\d]")
"""The mark of a choice; small words with the blank before them; words, which are copied, without it; single signs."""
_MARKUP_SHARE = 0.9
"""A line that is not code becomes a token if it is in nearly all trajectories of a kind: it says nothing of its own,
unless it is one word with which a text begins."""
_JOINED_SHARE = 0.95
"""Two lines are joined if so large a share of the places of one of them is next to the other."""
_GAP = "\n\n"
"""What is joined ends at an empty line: a function is a token, a program is not."""
_QUOTED = re.compile(r"""["']([^"']+)["']""")
_SAID = re.compile(r"\n*(asked|choices|seen) = ")
"""Begins a line of code that says what was read or seen."""
_LINE = re.compile(r"\n*[^\n]+")
_ROLES = ("user\n", "assistant\n")
"""How a turn begins in the template."""
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
    """Make the tokenizer for these trajectories, with the chat template; `context` tokens at most."""
    texts: list[str] = []
    code: dict[str, Counter[str]] = defaultdict(Counter)
    markup: dict[str, Counter[str]] = defaultdict(Counter)
    seen: Counter[str] = Counter()
    begun: set[str] = set()
    for trajectory in trajectories:
        kind = f"{trajectory.task.source} in {trajectory.provenance.dialect}"
        seen[kind] += 1
        own = list(_texts(trajectory))
        texts += own
        programs = [turn.action.code for turn in trajectory.turns if isinstance(turn.action, Code)]
        written = {line for program in programs for line in program.splitlines()}
        found = {line for text in own for line in _lines(text)}
        of_code = {line for line in found if line.lstrip("\n") in written}
        begun.update(found[0] for found in map(_SAID.match, of_code) if found is not None)
        code[kind].update(line for line in of_code if not _said(line, trajectory.task.question))
        markup[kind].update(line for line in found - of_code if not line.isalpha())
    frequent = _frequent(code, seen, settings.line_share) | _frequent(markup, seen, _MARKUP_SHARE)
    backend = _pieces_tokenizer(_without_lines(texts, frequent), settings.vocabulary)
    blocks = joined_lines(map(_lines, texts), frequent)
    backend.add_tokens(
        [AddedToken(block, normalized=False, special=False) for block in (*blocks, *sorted(begun), *_ROLES)]
    )
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
    """Yield each stretch of text between pictures and turns."""
    shown = [*trajectory.prompt, *(turn.observation for turn in trajectory.turns if turn.observation is not None)]
    for message in shown:
        yield from (part.text for part in message.parts if isinstance(part, TextPart))
    for turn in trajectory.turns:
        yield turn.text


def _lines(text: str) -> list[str]:
    """Return the lines with what breaks them off from the line before: a word is the same word at the end of a line."""
    return _LINE.findall(text)


def joined_lines(texts: Iterable[Sequence[str]], frequent: Collection[str]) -> list[str]:
    """Return the sorted blocks into which texts fall: frequent lines, joined where one hardly comes without the other.

    Args:
        texts: the lines of each text, in their order, as `_lines` cuts them.
        frequent: those that may become tokens; the others part blocks and are left out.
    """
    known = Counter(tuple(line if line in frequent else "" for line in lines) for lines in texts)
    while pairs := _inseparable(known):
        joined: Counter[tuple[str, ...]] = Counter()
        for lines, count in known.items():
            joined[tuple(_joined(lines, pairs))] += count
        known = joined
    return sorted({line for lines in known for line in lines} - {""})


def _inseparable(texts: Mapping[tuple[str, ...], int]) -> set[tuple[str, str]]:
    single: Counter[str] = Counter()
    double: Counter[tuple[str, str]] = Counter()
    for lines, count in texts.items():
        for line in lines:
            single[line] += count
        for pair in pairwise(lines):
            double[pair] += count
    return {
        (first, second)
        for (first, second), count in double.items()
        if first
        and second
        and not second.startswith(_GAP)
        and count >= _JOINED_SHARE * min(single[first], single[second])
    }


def _joined(lines: Sequence[str], pairs: Collection[tuple[str, str]]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        width = 2 if tuple(lines[at : at + 2]) in pairs else 1
        yield "".join(lines[at : at + width])
        at += width


def _said(line: str, question: str) -> bool:
    """Tell whether a line of code says what was seen, or repeats the question's words: it is written piece by piece."""
    quoted = (re.search(rf"\b{re.escape(text)}\b", question, re.IGNORECASE) for text in _QUOTED.findall(line))
    return _SAID.match(line) is not None or any(quoted)


def _frequent(lines: dict[str, Counter[str]], seen: Counter[str], share: float) -> set[str]:
    """Return the lines in at least `share` of the trajectories of a kind."""
    return {line for kind, counts in lines.items() for line, count in counts.items() if count >= share * seen[kind]}


def _without_lines(texts: Iterable[str], frequent: Collection[str]) -> Iterator[str]:
    """Leave out lines that are tokens already: their words would crowd out those of questions."""
    for text in texts:
        yield "".join(line for line in _lines(text) if line not in frequent)


def _pieces_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(_PIECES, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
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
