from __future__ import annotations

import pytest

from saccade.training.sft.synth.made import DiscardedError
from saccade.training.sft.synth.prompts import conclusion_in, reasoning_in, steps_in, thoughts_in


def test_well_formed_texts_are_read() -> None:
    assert thoughts_in('<thought turn="1"> a </thought>\n<thought turn="2">b</thought>', 2) == ("a", "b")
    assert reasoning_in("<reasoning>one and one</reasoning>\n<answer>2</answer>\n") == ("one and one", "2")
    assert conclusion_in("<thought>so</thought><answer> 2 </answer>") == ("so", "2")
    (step,) = steps_in("<step>\n<thought>add</thought>\n<code>\nif True:\n    print(1)\n</code>\n</step>")
    assert (step.thought, step.code) == ("add", "if True:\n    print(1)")


@pytest.mark.parametrize(
    "text",
    [
        "",
        '<thought turn="1">a</thought>',
        '<thought turn="2">a</thought><thought turn="1">b</thought>',
        'Sure! <thought turn="1">a</thought><thought turn="2">b</thought>',
        '<thought turn="1">a</thought><thought turn="2"> </thought>',
        '<thought turn="1">a</thought><thought turn="2">x <code>1</code></thought>',
        '<thought turn="1">a</thought><thought turn="2">' + "x" * 7000 + "</thought>",
    ],
)
def test_thoughts_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(DiscardedError, match="invalid output"):
        thoughts_in(text, 2)


@pytest.mark.parametrize(
    "text",
    [
        "no steps",
        "<step><thought>a</thought><code>print(</code></step>",
        "<step><thought>a</thought><code>```python\nprint(1)\n```</code></step>",
        "<step><thought>a</thought><code>print(1)</code></step> and so on",
        "<step><thought></thought><code>print(1)</code></step>",
    ],
)
def test_steps_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(DiscardedError, match="invalid output"):
        steps_in(text)


@pytest.mark.parametrize(
    "text", ["<answer>2</answer>", "<thought>a</thought>", "<thought>a</thought><answer>2</answer>!"]
)
def test_a_conclusion_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(DiscardedError, match="invalid output"):
        conclusion_in(text)
