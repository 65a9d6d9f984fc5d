"""The options of a multiple-choice question: their labels and texts, and where a text mentions them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from string import ascii_uppercase
from typing import Final

from saccade.grading.clean import clean, unwrapped
from saccade.grading.formula import same_formula
from saccade.grading.languages import AND, OPTION, written_in
from saccade.grading.letters import in_our_letters, own_labels
from saccade.grading.quantities import quantity
from saccade.grading.text import bare, same_quantity, same_text, starts_as_number, without_article

_MENTION = re.compile(r"(?<![A-Za-z])[(\[]\s?(?P<bracketed>[A-Z])\s?[)\]]|\b(?i:option|choice)s?\s+(?P<named>[A-Z])\b")
_OPTION_ABROAD = re.compile(rf"(?<![^\W_])(?:{OPTION})(?<!option)\s?(?=[(]?(?-i:[A-Z])[)]?(?![^\W_]))", re.IGNORECASE)
_PAIR_ABROAD = re.compile(r"(?<=[0-9])\s?;\s?(?=[-0-9])")
_VERB = re.compile(
    r"(?:increas|decreas|stay|remain|mov|rotat|turn|ris|fall|doubl|halv|get|becom|go|expand|contract|shrink|grow|sink|float|melt)e?s\b"
)
_LEADS_ELSEWHERE: Final = frozenset(
    """
        que als wie comme como come neben bei vor hinter nach von um de du del da do di a à al au aux con mit avec com
        sin sans ohne und et y e o ou oder ni zu in im en em na w z ze od i oraz vid och og av på till med utan
        van met op naar чем с из от к на в и или рядом у без than من في على و से का की के और পাশে از به با và với của dan
        dengan dari ile ve kadar ki és s k se si cu la lângă και με από
    """.split()  # noqa: SIM905
)
"""What comes before the text of an option that only says where something is, or whose it is."""
UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_MARKUP = re.compile(r"^#{1,6}\s+|\$|(?<!\\)\\[()\[\]]|\*\*|__|`")
_INNER = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|operatorname|boldsymbol)\s?\{([^{}\\]*)\}")
_SMALL_WORDS = frozenset(
    """
        the a an is are was were be been it its it's this that these those on to at in of from by as with has have had
        says shows show for called named so therefore thus hence and but choose chose pick select selected option
        choice answer color colour there their they he she both only likely most clearly definitely probably because
        since than i'd say not or either looks look like seems appears into under over near who which i think believe
        you we see becomes also reads states spells displays depicts labeled labelled named marked
    """.split()  # noqa: SIM905
)
_PREDICATE = re.compile(
    r"\s[a-z]+[a-rt-z]s\s(?:up|down|from|to|by|in|at|out|off|above|below|over|the|an?|more|most|less|least|first|last|higher|lower"
    r"|fast\w*|slow\w*|it|its|their|[0-9]\S*)\s(?!.*\b(?:is|are|was|were|has|have)\b)"
)
"""What a subject does: "orange goes up the most", but not "orange cars"."""
_MODIFIES_NOT = re.compile(
    r"(?:is|are|was|were|has|have|had|of|in|on|at|to|for|with|by|as|from|than|because|since|which|that|who|when|while|if|and|or|"
    r"but|not|would|will|can|could|should|does|do|did|side|one|option|choice|answer|seems?|appears?|looks?|shows?|means|represents"
    r"|[a-z]+ed)\b"
)

_BARE_NUMBER = re.compile(r"(?<![\w.,-])[0-9]+(?:[.,][0-9]+)*(?!\w)")
_COUNTED = re.compile(r"\A(?:[0-9]{1,3}|two|three|four|five|six|seven|eight|nine|ten|some|several|many|a\sfew|the)\s")


def _parts_of(plains: Sequence[str]) -> tuple[str, ...]:
    """Return what tells the options apart: heads before a colon, or the second words of "Graph 1", "Graph 2"."""
    heads = [bare(plain.partition(": ")[0]) for plain in plains]
    if all(len(one) > 1 and one != bare(plain) for one, plain in zip(heads, plains, strict=True)):
        return tuple(heads) if len(set(heads)) == len(heads) else ()
    words = [bare(plain).split() for plain in plains]
    tails = [one[1] for one in words if len(one) == 2 and one[0] == words[0][0]]
    first = set(ascii_uppercase[: len(plains)].lower())
    return tuple(tails) if len(set(tails)) == len(plains) > 1 and not first & set(tails) else ()


def label(index: int, count: int) -> str:
    """Return the label of option `index` (from 0) of `count`."""
    return ascii_uppercase[index] if count <= len(ascii_uppercase) else str(index + 1)


@cache
def _labels(count: int) -> tuple[str, ...]:
    return tuple(label(index, count) for index in range(count))


@lru_cache
def options_of(texts: tuple[str, ...], question: str = "") -> AnswerOptions:
    """Make the options with these texts, in this order."""
    own, unmarked = own_labels(texts, question)
    plains = tuple(_plain(text) for text in unmarked)
    words = tuple(bare(plain) for plain in plains)
    # "Co" and "CO", "f" and "f'": only as it is written does such a text name its option.
    alike = {one for one in words if len({plain for plain, word in zip(plains, words, strict=True) if word == one}) > 1}
    words = tuple(f"\0{plain}" if word in alike else word for plain, word in zip(plains, words, strict=True))
    asked = frozenset(re.findall(r"[a-z'-]{4,}", question.casefold()))
    asked |= {f"{word}s" for word in asked} | {word.removesuffix("s") for word in asked}
    return AnswerOptions(texts, plains, words, own, _parts_of(plains), question, asked)


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """The options of one question."""

    texts: tuple[str, ...]
    plains: tuple[str, ...] = field(repr=False)
    words: tuple[str, ...] = field(repr=False)
    """The normalised texts that are compared."""
    own: tuple[str, ...] = ()
    """Labels in other letters that the options have in the question."""
    heads: tuple[str, ...] = ()
    """What tells the options apart, if it is a part of each: "Line 3" of "Line 3: 4 x 8.25", "3" of "Graph 3"."""
    question: str = field(default="", repr=False)
    asked: frozenset[str] = field(default=frozenset(), repr=False)
    """The words of the question."""

    def plain(self, said: str) -> str:
        """Strip markup that means nothing for a choice, and write the options' own labels as ours."""
        plain = _plain(said)
        if bare(plain) in self.words:
            return plain
        plain = _OPTION_ABROAD.sub("option ", plain)
        if (noun := self.noun()) is not None:
            plain = noun.sub("option ", plain)
        if not self.own:
            return plain
        return in_our_letters(plain, self.own, lambda index: label(index, len(self.texts)))

    def paired(self, text: str) -> str:
        """Write a letter and its own option's text behind it ("B (horse)", "B: horse", "Bの馬") as the letter."""
        for index, words in enumerate(self.words):
            own = label(index, len(self.texts))
            if not words or own not in text:
                continue
            told = re.escape(words)
            said = rf"(?<![A-Za-z0-9_])(?-i:{own})(?:\)?\s?[:=-]\s?{told}(?!\w)|\)?\s?\(\s?{told}\s?\)|の{told})"
            text = re.sub(said, f"({own})", text, flags=re.IGNORECASE)
        return text

    def spread(self, text: str) -> str:
        """Write the word that all options share before each of several numbers: "figures 1 and 4" of "Figure 1"."""
        first = {words.partition(" ")[0] for words in self.words}
        if len(first) != 1 or not self.heads or not all(head.isdigit() for head in self.heads):
            return text
        noun = first.pop()
        stem = re.escape(noun[:-1] if len(noun) > 4 else noun)
        number = rf"(?:{'|'.join(sorted(self.heads, key=len, reverse=True))})"
        run = rf"(?<!\w){stem}\w{{0,3}}\s(?P<run>{number}(?:{AND}{number})+)(?![\w.,:]\w)"
        each = noun.replace("\\", "") + r" \g<0>"
        return re.sub(run, lambda found: re.sub("[0-9]+", each, found["run"]), text, flags=re.IGNORECASE)

    def noun(self) -> re.Pattern[str] | None:
        """Return the noun that all options are, before a label: "graph D" where they are "Graph 1", "Graph 2"."""
        first = {words.split()[0] if " " in words else "" for words in self.words}
        if (
            len(first) != 1
            or "" in first
            or any(re.search(r"(?<![A-Za-z])[A-Z](?![A-Za-z])", one) for one in self.plains)
        ):
            return None
        return re.compile(rf"(?<!\w){re.escape(first.pop())}\s(?=[(]?(?-i:[A-Z])[)]?(?!\w))", re.IGNORECASE)

    def index(self, name: str) -> int | None:
        """Return the option labelled `name`."""
        labels = _labels(len(self.texts))
        return labels.index(name.upper()) if name.upper() in labels else None

    def same(self, left: int, right: int) -> bool:
        """Tell whether both options have the same text."""
        return left == right or self.words[left] == self.words[right] != ""

    def doubles(self, index: int) -> set[int]:
        """Return the options with the same text."""
        return {other for other in range(len(self.texts)) if self.same(other, index)}

    def exact(self, plain: str) -> int | None:
        """Return the first option whose text is `plain`."""
        if (written := plain.strip()) in self.plains:
            return self.plains.index(written)
        said = bare(plain)
        noun = self.words[0].split()[0] if self.words[0] else ""
        if self.heads and said not in self.words and not self.heads[0].startswith(f"{noun} "):
            said = re.sub(r"^(?:number|no\.?|nr\.?|#)\s?", "", said.removeprefix(f"{noun} "))
        named = self.words if said in self.words else self.heads
        return named.index(said) if said and said in named else None

    def named(self, said: str) -> int | None:
        """Return the option whose text, number or formula is what is said, whatever article stands before it."""
        for form in (said, without_article(said)):
            if (exact := self.exact(form)) is not None:
                return exact
        return self.by_value(_PAIR_ABROAD.sub(", ", said)) if re.search(r"[0-9\\]", said) else None

    def ends(self, said: str, index: int) -> bool:
        """Tell whether a sentence of another language than English, or with a verb as an option, ends in its text."""
        words, said = self.words[index], said.removesuffix("色" if not self.words[index].endswith("色") else " ")
        before = said.removesuffix(words)
        if not words or before in ("", said) or (said.isascii() and not written_in(said) and not _VERB.match(words)):
            return False
        spaced = before[-1].isspace() and before.split()[-1].strip(",:") not in _LEADS_ELSEWHERE
        return spaced or (UNSPACED.match(words) is not None and (len(words) > 1 or before[-1] in "はがは是为為呈 :"))

    def starts_with_label(self, plain: str) -> bool:
        """Tell whether the text begins with an option's letter, marked or before punctuation."""
        match = re.match(r"[(\[]?([A-Za-z])[)\]]?(?![\w'])", plain)
        return match is not None and self.index(match[1]) is not None

    def glued(self, plain: str) -> int | None:
        """Return the option whose letter and text are joined: `E2` where E is 2."""
        said = "".join(plain.split()).casefold().rstrip(".")
        for index, words in enumerate(self.words):
            own = label(index, len(self.texts)).casefold() + "".join(words.split())
            if words and not words[0].isalpha() and said == own:
                return index
        return None

    def by_value(self, plain: str) -> int | None:
        """Return the single option that states the same number or formula."""
        if len(plain) > 200:
            return None
        same = [index for index, text in enumerate(self.plains) if same_text(plain, text)]
        same = same or [
            index for index, words in enumerate(self.words) if words and _closed(words) == _closed(bare(plain))
        ]
        same = same or self._by_quantity(plain)
        same = same or [index for index, text in enumerate(self.plains) if same_formula(plain, text)]
        return same[0] if same and len({self.words[index] for index in same}) == 1 else None

    def numbers_in(self, plain: str) -> frozenset[int]:
        """Return the options that are bare numbers, where all are, and stand in a sentence."""
        if len(plain) > 400 or not all(map(_BARE_NUMBER.fullmatch, self.words)) or not re.search(r"[^\W\d_]{3}", plain):
            return frozenset()
        said = _BARE_NUMBER.findall(plain)
        return frozenset(index for index, words in enumerate(self.words) if words in said)

    def named_in_plural(self, said: str) -> int | None:
        """Return the option of which an English text is the plural, perhaps counted: "two zebras"."""
        words = _COUNTED.sub("", bare(said))
        ways = [words.removesuffix("s"), words.removesuffix("es"), re.sub("ies$", "y", words)]
        return next((self.words.index(one) for one in ways if one != words and one in self.words), None)

    def _by_quantity(self, plain: str) -> list[int]:
        said = quantity(plain)
        if said is None or said.about:
            return []
        golds = [(index, quantity(text)) for index, text in enumerate(self.plains) if starts_as_number(text)]
        return [index for index, gold in golds if gold is not None and same_quantity(said, gold)]

    def begins(self, rest: str, index: int) -> bool:
        """Tell whether `rest` begins with the text of this option."""
        return self.without(rest, index) != rest

    def without(self, rest: str, index: int) -> str:
        """Strip the whole text of this option from the start of `rest`."""
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
        """Tell whether `rest` begins with the text of another option."""
        others = [other for other in range(len(self.texts)) if not self.same(other, index)]
        rest = rest.strip()[: 2 * max(map(len, self.texts)) + 100]
        first = re.split(r"[.,;:\n](?:\s|$)|\s(?:because|since|as)\s", rest)[0]
        if first.strip() == self.plains[index]:
            return False
        if any(same_text(first, self.plains[other]) for other in others):
            return True
        return any(len(self.words[other]) > 1 and self.without(rest, other) != rest for other in others)

    def mentioned(self, text: str) -> set[int]:
        """Return the options mentioned in `text`; if one option's text contains another's, the longer counts."""
        found: set[int] = set()
        for match in _MENTION.finditer(text):
            index = self.index(match["bracketed"] or match["named"])
            found |= set() if index is None else {index}
        return found | self.mentioned_by_text(text)

    def mentioned_by_text(self, text: str, alone: bool = True) -> set[int]:
        """Return the options whose text occurs; with `alone`, not within a longer phrase ("navy blue" for "blue")."""
        rest = re.sub(r"'s\b", "", f" {bare(text)} ")
        found: set[int] = set()
        for index in sorted(range(len(self.texts)), key=lambda index: -len(self.words[index])):
            words = re.sub(r"'s\b", "", self.words[index])
            if len(words) < 2 or not words[0].isalpha() or words not in rest:
                continue  # single letters and numbers turn up in any sentence
            before = "" if UNSPACED.match(words) else r"(?<![\w-])(?:[وبفل]?ال)?"
            form = before + re.escape(words) + ("" if UNSPACED.match(words[-1]) else r"(?![\w-])")
            spots = list(re.finditer(form, rest))
            if any(not alone or _stands_alone(rest, spot, self.asked) for spot in spots):
                found.add(index)
            if spots:
                rest = re.sub(form, " | ", rest)
        return found

    def without_texts(self, text: str) -> str:
        """Remove the texts of all options, the longest first."""
        rest = bare(text)
        for words in sorted(filter(None, self.words), key=len, reverse=True):
            if words in rest:
                rest = re.sub(rf"(?<![A-Za-z不没沒非未]){re.escape(words)}(?![A-Za-z])", " ", rest)
        return rest


def _stands_alone(text: str, spot: re.Match[str], asked: frozenset[str]) -> bool:
    before = re.search(r"([\w'-]+)\s+[\"'(]?$", text[: spot.start()])
    after = re.match(r"\s+([a-z][\w'-]*)", text[spot.end() :])
    begins = before is None or before[1] in _SMALL_WORDS or before[1].endswith("ly") or before[1] in asked
    if begins and len(text[: spot.start()].split()) < 6 and _PREDICATE.match(text, spot.end()):
        return True
    ends = after is None or _MODIFIES_NOT.match(after[1]) is not None or after[1] in asked
    return begins and (ends or len(spot[0].split()) > 2)


def _closed(text: str) -> str:
    """Remove spaces: `F = 7450 lbf` becomes `F=7450lbf`."""
    return "".join(text.split())


def _plain(text: str) -> str:
    return unwrapped(_MARKUP.sub("", _INNER.sub(r"\1", clean(text)))).strip()
