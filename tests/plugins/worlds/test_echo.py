"""World echo: what is to be printed is in the question, and in the program's output."""

import re
from collections import Counter

from tests.plugins.worlds.running import pixels_digest, printed_answer

from saccade.tasks.worlds.base import draw_sample, load_world

ECHO = load_world("echo")


def test_the_text_is_in_the_question_and_printed() -> None:
    answers = Counter[str]()
    for index in range(60):
        sample = draw_sample(ECHO, "train", index)
        if sample.choices:
            assert sample.choices["ABCDEFG".index(sample.question[-2])] == sample.answer
        elif '"' in sample.question:
            assert f'"{sample.answer}"' in sample.question
        else:
            assert set(sample.answer.split()) < set(re.findall(r"\w+", sample.question))
        assert printed_answer(sample) == sample.answer
        answers[sample.answer] += 1
    assert len(answers) > 50


def test_the_pixels_are_the_same_on_every_machine() -> None:
    assert pixels_digest(draw_sample(ECHO, "test", 0)) == "4eda34b4e078aa7d"
