"""The tokenizer: lines of code whole, choices and numbers in pieces, every text exactly back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.record.content import Answer, Code, Message, TextPart
from saccade.record.task import Task
from saccade.record.trajectory import FinishReason, Provenance, Trajectory, Turn
from saccade_tiny.settings import TokenizerSettings
from saccade_tiny.tokenizer import QWEN_TOKENS, joined_lines, make_tokenizer

PROGRAM = "import numpy as np\nseen = 'none'\ngrey = np.array(image_clue_0)\nprint(values(['Hares']), \"found\")"


def trajectory(number: int) -> Trajectory:
    text = f"<code>\n```python\n{PROGRAM}\n```\n</code>"
    answer = f"<answer>\n\\boxed{{{number}}}\n</answer>"
    question = f"What is the value for Hares?\nA. {number}\nB. {number + 30}"
    return Trajectory(
        id=f"t{number}",
        task=Task(id=f"w@1/train/{number}", question=question, source="w@1", answer=str(number)),
        provenance=Provenance(dialect="tiny@1:look"),
        prompt=(Message(role="user", parts=(TextPart(text=question),)),),
        turns=(
            Turn(text=text, action=Code(code=PROGRAM), finish_reason=FinishReason.STOP_STRING),
            Turn(text=answer, action=Answer(text=str(number)), finish_reason=FinishReason.STOP),
        ),
    )


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return make_tokenizer([trajectory(number) for number in range(20)], TokenizerSettings(vocabulary=400), 512)


def pieces(tokenizer: Any, text: str) -> list[str]:
    return [tokenizer.decode([token]) for token in tokenizer.encode(text)]


def test_lines_that_always_come_together_are_one_token(tokenizer: Any) -> None:
    block = "<code>\n```python\nimport numpy as np"
    assert pieces(tokenizer, f"{block}\nprint(1)")[:2] == [block, "\n"]


def test_lines_are_joined_where_one_hardly_comes_without_the_other() -> None:
    apart = [["a"], ["b"]] * 3 + [["a", "b"]]
    assert joined_lines(apart, {"a", "b"}) == ["a", "b"]
    assert joined_lines([*apart, ["x", "a", "y", "z"]], {"a", "b", "x", "y", "z"}) == ["a", "b", "xayz"]
    assert joined_lines([["a", "?", "b"], ["a", "!", "b"]], {"a", "b"}) == ["a", "b"]


def test_a_word_at_the_end_of_a_line_is_the_word(tokenizer: Any) -> None:
    assert pieces(tokenizer, "Hares\n")[0] == pieces(tokenizer, "Hares and")[0] == "Hares"


def test_what_is_copied_stays_in_pieces(tokenizer: Any) -> None:
    assert "Hares" in pieces(tokenizer, PROGRAM.splitlines()[-1])
    assert pieces(tokenizer, PROGRAM.splitlines()[1])[-3:] == ["'", "none", "'"]
    assert pieces(tokenizer, "\\boxed{17}\n")[-4:] == ["1", "7", "}", "\n"]
    assert pieces(tokenizer, "?\nA. 12\nB. 30") == ["?", "\nA. ", "1", "2", "\nB. ", "3", "0"]


def test_beginnings_are_one_token(tokenizer: Any) -> None:
    turns = [{"role": "user", "content": "Hares"}, {"role": "assistant", "content": "17"}]
    text = tokenizer.apply_chat_template(turns, tokenize=False)
    assert pieces(tokenizer, text)[:4] == ["<|im_start|>", "user\n", "Hares", "<|im_end|>"]
    assert pieces(tokenizer, text)[5:8] == ["<|im_start|>", "assistant\n", "1"]
    assert pieces(tokenizer, "\nseen = 'none'") == ["\nseen = ", "'", "none", "'"]


def test_the_tokens_of_the_family_come_first(tokenizer: Any) -> None:
    assert tokenizer.convert_ids_to_tokens(list(range(len(QWEN_TOKENS)))) == list(QWEN_TOKENS)


@given(text=st.text(max_size=60))
def test_every_text_comes_back(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text
