"""The provider of `saccade-tiny`, the small model that comes with Saccade, and the questions that it learned."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from saccade.dialects.base import Dialect
from saccade.dialects.direct import DirectDialect
from saccade.dialects.prompt_texts import ANY, CORRECTION, LAST, SYSTEM, TOOL, USER, Prompts
from saccade.dialects.pyvision import FRAME, RL_FRAME, PyVisionDialect
from saccade.dialects.pyvision_rl import PyVisionRLVideoDialect
from saccade.dialects.vista import VistaDialect
from saccade.errors import RegistryError, UnavailableError
from saccade.models.local_text import learned_dialect
from saccade.plugins.worlds.solvers import solver_for
from saccade.record.trajectory import EpisodeLimits
from saccade.tokens.local_model import LOCAL, LocalModel

# Find the weights of `saccade-tiny`, if this installation has them.

FOLDER = Path(__file__).parent / "weights" / "tiny"


def tiny_weights() -> Path:
    """Return the folder of the checkpoint. Raises `UnavailableError`: it is not there."""
    if not (FOLDER / "model.safetensors").is_file():
        raise UnavailableError(
            "this installation has no weights of saccade-tiny. Build them with `python examples/tiny/build.py "
            "--out runs/tiny` in the repository and name them: --model local:runs/tiny/model"
        )
    return FOLDER


LEARNED: Final[Mapping[str, str]] = {
    "counting": "count circles or polygons of one kind",
    "line-crossings": "count the crossings of two coloured lines",
    "nested-squares": "count squares within squares",
    "rows-columns": "count the rows and columns of a table",
    "two-circles": "tell whether two circles touch or overlap",
    "chart": "read values, shares and differences off a drawn chart",
    "table": "reckon with the numbers of a printed table",
    "geometry": "find an angle, a length or an area in a marked drawing",
    "colour": "compare colours by their pixels",
    "word": "read a printed word that is turned, mirrored or in the dark",
    "dot": "find a coloured sign in a picture and name the colour of the dot on it",
}
"""The kinds of questions in which the shipped weights reached their targets (docs/tiny.md), by `known_kind`."""
_OF_CHOICES: Final = frozenset({"dot"})
"""Kinds that the demonstrations asked with possible answers only."""
_KINDS: Mapping[str, re.Pattern[str]] = {
    "sign": re.compile(r"\bletter\b.*\bsign\b|\bsign\b.*\bletter\b"),
    "dot": re.compile(r"\bdot\b.*\bsign\b|\bsign\b.*\bdot\b"),
    "chart": re.compile(
        r"\bvalues? (of|for|above|largest|smallest)\b|\b(largest|smallest) value\b|\b[xy] value\b|\bcategor(y|ies)\b|"
        r"\bpercentage of the whole\b|\bshares?\b.*\b(largest|smallest|larger)\b|\bpoints\b.*\bin the chart\b"
    ),
    "table": re.compile(
        r"\btogether in the table\b|\baccording to the table, how many more\b|\b(mean|range|median) of the numbers\b|"
        r"\brate of change\b|\brows of the table have at least\b|\bhas the (most|fewest)\b|\bfraction of all\b|"
        r"\bof the table is picked at random\b|\bcost together, in dollars\b"
    ),
    "geometry": re.compile(r"\bmarked x\b|\bis x\b|\bfind x\b|\b(area|perimeter) of the\b|\bwhat is its area\b"),
    "word": re.compile(r"\bwords?\b.*\b(dark|turned|mirrored|written)\b|\b(dark|turned|mirrored)\b.*\bword\b"),
    "colour": re.compile(r"\bcolour covers\b|\bframed (patch|patches|squares?)\b|\bpercentage of the picture\b"),
}


def known_kind(question: str) -> str | None:
    """Tell the kind of a question by its wording: a family of `tasks.solvers`, or a key of `_KINDS`.

    None for all others, and for a question that might be of several kinds. The picture is not looked at.
    """
    solver = solver_for(question)
    if solver is not None:
        return solver.family
    words = " ".join(question.lower().replace("color", "colour").split())
    kinds = [kind for kind, pattern in _KINDS.items() if pattern.search(words)]
    return kinds[0] if len(kinds) == 1 else None


def refusal(question: str, choices: Sequence[str]) -> str:
    """Say why the shipped weights cannot answer a question; empty if they learned its kind.

    Raises `UnavailableError`: this installation has no weights.
    """
    tiny_weights()
    kind = known_kind(question)
    if kind in _OF_CHOICES and len(choices) < 2:
        return (
            "Without one, the model that comes with Saccade answers, but it learned this kind of question with "
            "possible answers only: name them, as in --choice red --choice blue --choice white."
        )
    if kind not in LEARNED:
        *others, last = LEARNED.values()
        return (
            "Without one, the model that comes with Saccade answers, but this question is of none of the kinds that it "
            f"learned: it can {', '.join(others)} and {last}."
        )
    return ""


def _checkpoint(name: str) -> str:
    if name:
        raise RegistryError(f"tiny is one model and takes no name, so not {name!r}; your own weights are local:FOLDER")
    return str(tiny_weights())


TINY: Final = replace(
    LOCAL,
    name="tiny",
    description="The small model that is bundled with Saccade; it takes no name.",
    example="tiny",
    make=lambda provider, name: LocalModel(_checkpoint(name)),
    takes_name=False,
    checkpoint=_checkpoint,
    refusal=refusal,
    learned_dialect=lambda name: learned_dialect(FOLDER),
)

# What `saccade-tiny` speaks: the wire of the PyVision dialects around the bare question.
#
# A model of a few million parameters learns the form from its trajectories, so the prompt explains nothing. Presets:
# `look` (pictures, the default), `direct` (pictures, but the model is told to answer without code: the baseline of its
# table), `video`, and for VISTA's form `tools` (a thought and a typed call or an answer; every tool that lacks nothing
# is there, and none is listed) and `think` (a thought and an answer). Not for other models: nothing tells them about
# tags, variables or tools.

_BARE = Prompts({**FRAME, ANY: "{query}"}, "the prompts of saccade-tiny")
_DIRECT = Prompts({**FRAME, ANY: "No code.\n{query}"}, "the prompts of saccade-tiny")
_VIDEO = Prompts({**RL_FRAME, ANY: "{query}"}, "the prompts of saccade-tiny")
_TOOLS = Prompts(
    {SYSTEM: "", USER: "{query}", TOOL: "{name}", CORRECTION: "{reason}", LAST: "Answer now."},
    "the prompts of saccade-tiny",
)
_THINK = Prompts({SYSTEM: "", USER: "No tools.\n{query}"}, "the prompts of saccade-tiny")

PRESETS: Mapping[str, Dialect] = {
    "look": PyVisionDialect("tiny@1:look", prompts=_BARE, limits=EpisodeLimits(turns=57)),
    "direct": PyVisionDialect("tiny@1:direct", prompts=_DIRECT, limits=EpisodeLimits(turns=1)),
    "video": PyVisionRLVideoDialect("tiny@1:video", EpisodeLimits(turns=4), corrects=True, prompts=_VIDEO),
    "tools": VistaDialect("tiny@1:tools", prompts=_TOOLS),
    "think": DirectDialect("tiny@1:think", _THINK, tags_thoughts=True),
}
