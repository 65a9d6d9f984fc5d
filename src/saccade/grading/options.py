"""The options of a question: their letters, texts and values, and which of them a text holds."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from string import ascii_uppercase

from saccade.grading.clean import clean
from saccade.grading.compare import same_quantity
from saccade.grading.formula import same_formula
from saccade.grading.quantities import quantity
from saccade.grading.text import bare, same_text, starts_as_number
from saccade.grading.wrappers import unwrapped

_MENTION = re.compile(r"[(\[]\s?(?P<bracketed>[A-Z])\s?[)\]]|\b(?:option|choice)s?\s+(?P<named>[A-Z])\b")
_MARKUP = re.compile(r"^#{1,6}\s+|\$|(?<!\\)\\[()\[\]]|\*\*|__|`")
_INNER = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|operatorname|boldsymbol)\s?\{([^{}\\]*)\}")
_SMALL_WORDS = frozenset(
    [
        "the",
        "a",
        "an",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "it",
        "its",
        "it's",
        "this",
        "that",
        "these",
        "those",
        "on",
        "to",
        "at",
        "in",
        "of",
        "from",
        "by",
        "as",
        "with",
        "has",
        "have",
        "had",
        "says",
        "shows",
        "show",
        "for",
        "called",
        "named",
        "so",
        "therefore",
        "thus",
        "hence",
        "and",
        "but",
        "choose",
        "chose",
        "pick",
        "select",
        "selected",
        "option",
        "choice",
        "answer",
        "color",
        "colour",
        "there",
        "their",
        "they",
        "he",
        "she",
        "both",
        "only",
        "likely",
        "most",
        "clearly",
        "definitely",
        "probably",
        "because",
        "since",
        "than",
        "i'd",
        "say",
        "not",
        "or",
        "either",
        "looks",
        "look",
        "like",
        "seems",
        "appears",
        "into",
        "under",
        "over",
        "near",
        "who",
        "which",
        "i",
        "think",
        "believe",
        "you",
        "we",
        "see",
        "becomes",
        "also",
    ]
)
_MODIFIES_NOT = re.compile(
    r"(?:is|are|was|were|has|have|had|of|in|on|at|to|for|with|by|as|from|than|because|since|which|that|who|when|while|if|and|or|"
    r"but|not|would|will|can|could|should|does|do|did|side|one|option|choice|answer|seems?|appears?|looks?|shows?|means|represents"
    r"|[a-z]+ed)\b"
)


def label(index: int, count: int) -> str:
    """What option number `index` (from 0) of `count` is called."""
    return ascii_uppercase[index] if count <= len(ascii_uppercase) else str(index + 1)


@cache
def _labels(count: int) -> tuple[str, ...]:
    return tuple(label(index, count) for index in range(count))


@lru_cache
def options_of(texts: tuple[str, ...]) -> AnswerOptions:
    """The options with these texts, in this order."""
    plains = tuple(_plain(text) for text in texts)
    return AnswerOptions(texts, plains, tuple(bare(plain) for plain in plains))


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """The options of one question."""

    texts: tuple[str, ...]
    plains: tuple[str, ...] = field(repr=False)
    words: tuple[str, ...] = field(repr=False)
    """The texts as they are compared."""

    def plain(self, said: str) -> str:
        """`said` without the markup that means nothing for a choice."""
        return _plain(said)

    def index(self, name: str) -> int | None:
        """The option that is called `name`."""
        labels = _labels(len(self.texts))
        return labels.index(name.upper()) if name.upper() in labels else None

    def same(self, left: int, right: int) -> bool:
        """Whether both options read the same."""
        return left == right or self.words[left] == self.words[right] != ""

    def doubles(self, index: int) -> set[int]:
        """Options with the same text."""
        return {other for other in range(len(self.texts)) if self.same(other, index)}

    def exact(self, plain: str) -> int | None:
        """The first option whose text `plain` is."""
        said = bare(plain)
        return self.words.index(said) if said and said in self.words else None

    def starts_with_label(self, plain: str) -> bool:
        """Whether an option's letter stands first, marked or before punctuation."""
        match = re.match(r"[(\[]?([A-Za-z])[)\]]?(?![\w'])", plain)
        return match is not None and self.index(match[1]) is not None

    def glued(self, plain: str) -> int | None:
        """The option whose letter and text are written without a space: `E2` where E is 2."""
        said = "".join(plain.split()).casefold().rstrip(".")
        for index, words in enumerate(self.words):
            own = label(index, len(self.texts)).casefold() + "".join(words.split())
            if words and not words[0].isalpha() and said == own:
                return index
        return None

    def by_value(self, plain: str) -> int | None:
        """The one option that states the same number or formula."""
        if len(plain) > 200:
            return None
        same = [index for index, text in enumerate(self.plains) if same_text(plain, text)]
        same = same or [
            index for index, words in enumerate(self.words) if words and _closed(words) == _closed(bare(plain))
        ]
        same = same or self._by_quantity(plain)
        same = same or [index for index, text in enumerate(self.plains) if same_formula(plain, text)]
        return same[0] if same and len({self.words[index] for index in same}) == 1 else None

    def _by_quantity(self, plain: str) -> list[int]:
        said = quantity(plain)
        if said is None or said.about:
            return []
        golds = [(index, quantity(text)) for index, text in enumerate(self.plains) if starts_as_number(text)]
        return [index for index, gold in golds if gold is not None and same_quantity(said, gold)]

    def begins(self, rest: str, index: int) -> bool:
        """Whether `rest` begins with the text of that option."""
        return self.without(rest, index) != rest

    def without(self, rest: str, index: int) -> str:
        """`rest` without the text of that option at its start, if it stands there as a whole."""
        words = self.words[index]
        said = bare(rest)
        if not words:
            return rest
        if said == words or same_text(rest, self.plains[index]):
            return ""
        if _closed(said) == _closed(words):
            return ""
        if said.startswith(words) and not (said[len(words)].isalnum() and words[-1].isalnum()):
            return said[len(words) :]
        return rest

    def begins_with_other(self, rest: str, index: int) -> bool:
        """Whether `rest` begins with the text of another option, and not with that of its own."""
        others = [other for other in range(len(self.texts)) if not self.same(other, index)]
        first = re.split(r"[.,;:\n](?:\s|$)|\s(?:because|since|as)\s", rest.strip())[0]
        if any(same_text(first, self.plains[other]) for other in others):
            return True
        return any(len(self.words[other]) > 1 and self.without(rest, other) != rest for other in others)

    def mentioned(self, text: str) -> set[int]:
        """Options mentioned in `text`; where one option's text holds another's, the longer one counts."""
        found: set[int] = set()
        for match in _MENTION.finditer(text):
            index = self.index(match["bracketed"] or match["named"])
            found |= set() if index is None else {index}
        return found | self.mentioned_by_text(text)

    def mentioned_by_text(self, text: str, alone: bool = True) -> set[int]:
        """Options whose text stands in `text`; with `alone`, not within a longer phrase ("navy blue" for "blue")."""
        rest = f" {bare(text)} "
        found: set[int] = set()
        for index in sorted(range(len(self.texts)), key=lambda index: -len(self.words[index])):
            words = self.words[index]
            if len(words) < 2 or not words[0].isalpha():
                continue  # single letters and numbers turn up in any sentence
            spots = list(re.finditer(rf"(?<![\w-]){re.escape(words)}(?![\w-])", rest))
            if any(not alone or _stands_alone(rest, spot) for spot in spots):
                found.add(index)
            if spots:
                rest = re.sub(rf"(?<![\w-]){re.escape(words)}(?![\w-])", " | ", rest)
        return found

    def without_texts(self, text: str) -> str:
        """`text` without the texts of all options, the longest first."""
        rest = bare(text)
        for words in sorted(self.words, key=len, reverse=True):
            rest = rest.replace(words, " ") if words else rest
        return rest


def _stands_alone(text: str, spot: re.Match[str]) -> bool:
    before = re.search(r"([\w'-]+)\s+[\"'(]?$", text[: spot.start()])
    after = re.match(r"\s+([a-z][\w'-]*)", text[spot.end() :])
    begins = before is None or before[1] in _SMALL_WORDS or before[1].endswith("ly")
    return begins and (after is None or _MODIFIES_NOT.match(after[1]) is not None or len(spot[0].split()) > 2)


def _closed(text: str) -> str:
    """`text` without spaces: `F = 7450 lbf` is `F=7450lbf`."""
    return "".join(text.split())


def _plain(text: str) -> str:
    return unwrapped(_MARKUP.sub("", _INNER.sub(r"\1", clean(text)))).strip()
