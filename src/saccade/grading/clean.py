"""One spelling for each sign: what is done to every text before anything is compared.

Signs that cannot be seen go, minus signs and quotes get one form, superscripts become `^` and digits, fractions such as
one half become `1/2`. Nothing that a reader sees as different becomes the same, but for compatibility forms (NFKC).
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from saccade.record.base import clean_text

LONGEST_ANSWER: Final = 200_000
"""Characters of an answer beyond which it is not read."""
LONGEST_CANDIDATE: Final = 2_000
"""Characters of a final answer beyond which it is not compared."""
_SHOWN: Final = 200

_SUPERSCRIPTS: Final = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"
_SUPER = re.compile(f"[{_SUPERSCRIPTS}]+")
_PLAIN: Final = str.maketrans(_SUPERSCRIPTS, "0123456789+-")
_VULGAR = re.compile("(?P<before>[0-9])?(?P<sign>[¼½¾⅐-⅞])")
_ONE_FORM: Final = str.maketrans(
    {
        **dict.fromkeys("−‒–—―﹣－⁃", "-"),
        **dict.fromkeys("‘’‚‛′`´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("º˚", "°"),
        "⁄": "/",
        "∕": "/",
        "٪": "%",
        "。": ".",
        "\r": "\n",
        "\u2028": "\n",
        "\u2029": "\n",
    }
)
# What some servers leave behind an answer.
_END_TOKENS = re.compile(r"(?:\s?(?:<\|(?:im_end|endoftext|eot_id|end)\|>|</s>|<eos>))+\s*\Z")
_UNUSUAL = re.compile(r"[^\n -~]")
_DIGIT_GAP = re.compile("(?<=[0-9])[\u00a0\u2007\u2009\u202f](?=[0-9]{3}(?![0-9]))")


def clean(text: str) -> str:
    """`text` in one spelling; at most `LONGEST_ANSWER` characters of it are looked at."""
    text = _END_TOKENS.sub("", clean_text(text[:LONGEST_ANSWER]))
    if text.isascii():
        return _UNUSUAL.sub(_visible, text.replace("\r", "\n"))
    text = _SUPER.sub(lambda match: "^" + match[0].translate(_PLAIN), text)
    text = _VULGAR.sub(_spelt_fraction, text)
    text = _DIGIT_GAP.sub("", text.translate(_ONE_FORM))
    text = unicodedata.normalize("NFKC", text).translate(_ONE_FORM)
    return _UNUSUAL.sub(_visible, text)


def folded(text: str) -> str:
    """`text` in one spelling, lower-case, every run of white space one space."""
    return " ".join(clean(text).casefold().split())


def clipped(text: str) -> str:
    """`text` short enough for a message, and such that JSON can hold it."""
    return clean_text(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def _spelt_fraction(match: re.Match[str]) -> str:
    above, _, below = unicodedata.normalize("NFKC", match["sign"]).partition("⁄")
    return f"{match['before']} {above}/{below}" if match["before"] else f"{above}/{below}"


def _visible(match: re.Match[str]) -> str:
    sign = match[0]
    if sign.isprintable():
        return sign
    return "" if unicodedata.category(sign) == "Cf" else " "
