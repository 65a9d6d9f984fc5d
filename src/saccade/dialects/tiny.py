"""What `saccade-tiny` speaks: the wire of the PyVision dialects around the bare question.

A model of a few million parameters learns the form from its trajectories, so the prompt explains nothing. Presets:
`look` (pictures, the default), `direct` (pictures, but the model is told to answer without code: the baseline of its
table), `video`, and for VISTA's form `tools` (a thought and a typed call or an answer; every tool that lacks nothing is
there, and none is listed) and `think` (a thought and an answer). Not for other models: nothing tells them about tags,
variables or tools.
"""

from __future__ import annotations

from collections.abc import Mapping

from saccade.dialects.base import Dialect
from saccade.dialects.direct import DirectDialect
from saccade.dialects.prompt_texts import ANY, CORRECTION, LAST, SYSTEM, TOOL, USER, Prompts
from saccade.dialects.pyvision import PyVisionDialect
from saccade.dialects.pyvision_prompts import FRAME, RL_FRAME
from saccade.dialects.pyvision_rl import PyVisionRLVideoDialect
from saccade.dialects.vista import VistaDialect
from saccade.record.trajectory import EpisodeLimits

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
