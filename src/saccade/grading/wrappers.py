"""What families of models write around an answer: thoughts, tags, channels and tokens, one table of each.

Texts are as `clean` leaves them, so full-width bars are plain ones. Sources are model cards and chat templates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

THOUGHTS: Final = (
    ("<think>", "</think>"),  # DeepSeek-R1, Qwen3, GLM-4.1V and most others
    ("<thinking>", "</thinking>"),  # as Anthropic's prompts ask for it
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),  # Kimi-VL-Thinking
    ("[THINK]", "[/THINK]"),  # Magistral
    ("<longcat_think>", "</longcat_think>"),  # LongCat
    ("<thought>", "</thought>"),  # EXAONE Deep
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # Sky-T1, OpenThinker
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("<unused94>thought", "<unused95>"),  # MedGemma
)
"""What is thought. Some templates write the opening themselves, so all before the last closing is thought too."""
ASIDES: Final = (
    ("<reasoning>", "</reasoning>"),  # LLaVA-CoT, Reka Flash
    ("<rationale>", "</rationale>"),
    ("<analysis>", "</analysis>"),  # Keye-VL
    ("<explanation>", "</explanation>"),
    ("<summary>", "</summary>"),  # LLaVA-CoT
    ("<caption>", "</caption>"),  # LLaVA-CoT
)
"""What stands next to an answer, before or after it."""
ANSWERS: Final = (
    ("<answer>", "</answer>"),  # DeepSeek-R1, Hunyuan and most recipes of RL
    ("<|begin_of_box|>", "<|end_of_box|>"),  # GLM-4.1V to 4.6V
)
OTHER_ANSWERS: Final = (
    ("<final_answer>", "</final_answer>"),
    ("<final>", "</final>"),
    ("<ans>", "</ans>"),
    ("[ANSWER]", "[/ANSWER]"),
    ("<solution>", "</solution>"),
    ("<conclusion>", "</conclusion>"),  # LLaVA-CoT
    ("<response>", "</response>"),  # Granite 3.3, ERNIE 4.5
    ("<|begin_of_solution|>", "<|end_of_solution|>"),  # Sky-T1, OpenThinker
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),  # Command A
)
"""Read where there are none of `ANSWERS`."""
ENDS: Final = """
    <|im_end|> <|im_start|> <|im_sep|> <|endoftext|> <|end_of_text|> <|eot_id|> <|eom_id|> <|EOT|> <|end|> <|return|>
    <|user|> <|observation|> <|assistant_end|> <|END_OF_TURN_TOKEN|> <|end_of_sentence|> <|end▁of▁sentence|>
    <｜end▁of▁sentence｜> <end_of_turn> <turn|> </s> <eos> [EOS] <seed:eos> [|endofturn|]
""".split()  # noqa: SIM905
"""What some servers leave behind an answer."""

_END_TOKENS = re.compile(rf"(?=[\s<\[])(?:\s?(?:{'|'.join(map(re.escape, ENDS))}))+\s*\Z")


def _pattern(pairs: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    openings, closings = ("|".join(re.escape(pair[side]) for pair in pairs) for side in (0, 1))
    return re.compile(rf"(?=[<\[\u25c1])(?:(?P<open>{openings})|(?P<close>{closings}))", re.IGNORECASE)


_THOUGHT, _ASIDE, _ANSWER, _OTHER = map(_pattern, (THOUGHTS, ASIDES, ANSWERS, OTHER_ANSWERS))
_CHANNEL: Final = re.compile(r"<\|channel\|>(?P<name>\w+)(?:(?!<\|(?:message|channel)\|>)[^\n]){0,120}<\|message\|>")
_PLAIN_CHANNELS = re.compile(r"\A(?:analysis|commentary).*assistantfinal", re.DOTALL)
_HERE = re.compile(r"\A\s*Here is my thought process:.*^\s*Here is my response:", re.DOTALL | re.MULTILINE)


def without_end_tokens(text: str) -> str:
    """Strip tokens that end a turn."""
    return _END_TOKENS.sub("", text) if text.rstrip().endswith((">", "]")) else text


def without_thoughts(text: str) -> str:
    """Return what follows the thoughts of a text, and its final channel; nothing after an unclosed thought."""
    text = _final_channel(text)
    rest, begun = text, None
    for mark in _THOUGHT.finditer(text):
        if mark["close"]:
            rest, begun = text[mark.end() :], None
        elif begun is None:
            begun = mark.start() - (len(text) - len(rest))
    rest = rest if begun is None else rest[:begun]
    return _without_asides(rest)


def _final_channel(text: str) -> str:
    """Return the final channel of the format of gpt-oss (harmony), also where its special tokens were left out."""
    channels = list(_CHANNEL.finditer(text))
    if channels:
        last = channels[-1]
        return text[last.end() :] if last["name"] == "final" else ""
    plain = _PLAIN_CHANNELS.match(text) or _HERE.match(text)
    return text if plain is None else text[plain.end() :]


def _without_asides(text: str) -> str:
    kept, start, opened = [], 0, None
    for mark in _ASIDE.finditer(text):
        if mark["open"] and opened is None:
            kept.append(text[start : mark.start()])
            opened = mark.start()
        elif mark["close"] and opened is not None:
            start, opened = mark.end(), None
    return "".join([*kept, text[start if opened is None else opened :]]) if kept else text


def insides(text: str) -> list[str]:
    """Return the contents of answer tags; an unclosed one (stop strings are often cut off) runs to the end."""
    return _insides(text, _ANSWER) or _insides(text, _OTHER)


def _insides(text: str, marks: re.Pattern[str]) -> list[str]:
    parts: list[str] = []
    start: int | None = None
    closes = ""
    for mark in marks.finditer(text):
        if start is None and mark["open"]:
            start, closes = mark.end(), _CLOSINGS[mark["open"].casefold()]
        elif start is not None and mark[0].casefold() == closes:
            parts.append(text[start : mark.start()])
            start = None
    return parts if start is None else [*parts, text[start:]]


_CLOSINGS: Final = {opening.casefold(): closing.casefold() for opening, closing in (*ANSWERS, *OTHER_ANSWERS)}

# Answers in JSON, or in a Python dictionary: the values of these keys, wherever the object stands.
_KEYS: Final = (
    r"(?:the[_ ])?(?:(?:final|correct|my|predicted|right)[_ ]?)?(?:answers?|option|choice|prediction)"
    r"(?:[_ ]?(?:letter|value))?|答案|最终答案|正确答案|选项|答え|정답|답|respuesta|réponse|antwort|resposta"
    "|risposta|ответ|jawaban|cevap|الإجابة|उत्तर|đáp án"
)
_VALUE: Final = (
    r"\"(?:[^\"\\\n]|\\.){0,2000}\"|'(?:[^'\\\n]|\\.){0,2000}'|-?[0-9][0-9.,eE+-]{0,60}|true|false|True|False"
    r"|\[[^\[\]{}]{0,2000}\]"
)
_ENTRY, _COUNT_ENTRY = (
    re.compile(rf"(?<!\\)(?P<quote>[\"'])(?:{keys})(?P=quote)\s{{0,9}}:\s{{0,9}}(?P<value>{_VALUE})", re.IGNORECASE)
    for keys in (_KEYS, "count|total|result|value")
)
_ONLY_ENTRY = re.compile(
    rf"\s*(?:```\w*\s+)?\{{\s*\"\w{{1,40}}\"\s?:\s?(?P<value>{_VALUE})(?:,\s*\"units?\"\s?:\s?\"[^\"]{{1,20}}\")?\s*\}}\s*(?:```\s*)?"
)
"""An object of one pair, whatever its key, and perhaps a unit: `{"mass_g": 250}`."""
_OBJECT = re.compile(r"\{\s{0,99}[\"'][^\"'\n]{1,60}[\"']\s{0,9}:")
_CALL = re.compile(r"\bfinal_answer\(\s?(?:answer\s?=\s?)?(?P<value>[^()\n]{1,200}|[\"'].{1,400}?[\"'])\s?\)")
_MOST: Final = 64
"""The last objects that are looked at."""
_LATEX = re.compile(r"(?<!\\)\\(?:boxed|beta|bar|binom|fbox|frac|neq|right|rho|text|theta|times|tan|tfrac)")
"""Commands whose backslash JSON would take for an escape."""
_PLAIN_BOOL: Final = {"true": "yes", "false": "no"}


def stated_in_json(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start and end of an object, and the text of its answer; also of smolagents' `final_answer(...)`."""
    entries = list(_ENTRY.finditer(text)) if _OBJECT.search(text) is not None else []
    entries = entries or (list(_COUNT_ENTRY.finditer(text)) if text.lstrip().startswith(("{", "```")) else [])
    entries = entries or list(filter(None, [_ONLY_ENTRY.fullmatch(text)]))
    for entry in entries[-_MOST:]:
        start, end = text.rfind("{", 0, entry.start()), text.find("}", entry.end())
        yield max(start, 0), len(text) if end < 0 else end, _value(entry["value"])
    for call in [*_CALL.finditer(text)][-_MOST:]:
        yield call.start(), call.end(), _value(call["value"].strip())


def _value(text: str) -> str:
    """Return the text that a JSON or Python literal stands for; that of a list of one is its item."""
    if text[:1] == "[":
        try:
            items = json.loads(text)
        except ValueError:
            return text
        return text if len(items) != 1 else str(items[0])
    if text[:1] in "\"'" and text[-1:] == text[:1] and len(text) > 1:
        try:
            plain = text[0] == '"' and _LATEX.search(text) is None
            return str(json.loads(text)) if plain else text[1:-1].replace("\\'", "'")
        except ValueError:  # LaTeX whose backslashes are not escaped
            return text[1:-1]
    return _PLAIN_BOOL.get(text.lower(), text.rstrip(",."))
