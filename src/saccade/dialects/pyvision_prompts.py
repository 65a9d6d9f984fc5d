r"""The prompt texts of the PyVision dialects, in our own words.

Tags, variable names and formats are the published ones; the sentences are not. The names of the templates are those of
PyVision's own prompt file, so that such a file can take the place of these texts (`prompt_file`).
"""

from __future__ import annotations

from saccade.dialects.prompt_texts import CORRECTION, LAST, SYSTEM, Prompts

ONE_IMAGE = "vistool_with_img_info_v2"
MORE_IMAGES = "vistool_with_img_info_multi_image"
NO_IMAGE = "retool"
NO_HINT = "vis_tool_with_img_info_wo_init_image_v2"
VIDEO = "vis_tool_with_img_info_video_v4"

_HOW = """\
Work on the question below until it is answered. You can look again as often as you need: write Python, and a sandbox \
runs it and shows you what it printed and drew.

Before each piece of code, think about what you want to find out; after it, think about what the result tells you.

Rules for code:
- Wrap one complete script, with its imports, in these tags:
<code>
```python
your code
```
</code>
- {given}
- Show a picture with plt.show(); {see}. Nothing has to be saved.
- Print every value that you want to read with print().
- Variables stay there for your later code.
- The result comes back in <interpreter>...</interpreter>. Never write these tags yourself.

When you know the answer, end with:
<answer>
\\boxed{{{{answer}}}}
</answer>

{information}

Question:
{{query}}
"""


def _text(given: str, see: str, information: str) -> str:
    return _HOW.format(given=given, see=see, information=information)


FRAME = {
    SYSTEM: "",
    CORRECTION: "Error: {reason}",
    LAST: "No more code can be run. Give your final answer now, from what you have seen so far:\n"
    "<answer>\n\\boxed{{answer}}\n</answer>",
}
"""What is said beside the question. There is no system message, unless a prompt file has one."""
RL_FRAME = {name: text for name, text in FRAME.items() if name != LAST}
"""The same where episodes end at their limits."""

OWN = Prompts(
    {
        **FRAME,
        ONE_IMAGE: _text(
            "The picture with the number i is there as the PIL image `image_clue_i`, so the first is `image_clue_0`.",
            "it is drawn with matplotlib, for instance a crop, an enlargement or a plot",
            "Image Width: {width}; Image Height: {height}",
        ),
        MORE_IMAGES: _text(
            "The picture with the number i is there as the PIL image `image_clue_i`, counted from 0.",
            "it is drawn with matplotlib, for instance a crop, an enlargement or a plot",
            "{image_information}",
        ),
        NO_IMAGE: _text(
            "Variables, files and the network are empty at the start: all that you know stands in the question.",
            "it is drawn with matplotlib, for instance a plot",
            "There is no picture.",
        ),
        NO_HINT: _text(
            "You do not see the picture yet: it is there as the PIL image `image_hint_0`.",
            "it is drawn with matplotlib, and the only way to see the picture or a part of it",
            "{image_information}",
        ),
        VIDEO: _text(
            "You do not see the video: it is there as the decord VideoReader `video_clue_0`.",
            "it is drawn with matplotlib, and the only way to see frames, so sample some first and more when needed",
            "{image_information}",
        ),
    },
    "Saccade's own prompts",
)
RL_OWN = Prompts({name: text for name, text in OWN.templates.items() if name != LAST}, OWN.source)
