import pytest
from tests.tiny import tiny_folder
from tests.training.rl.policies import policy
from tests.training.sft.train.support import said

from saccade.record.content import Message, ParseError
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory, Turn, conversation
from saccade.tokens.build import TokenStream, token_trajectory
from saccade.tokens.encoder import Encoder


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return policy(tiny_folder()).encoder


def turn(encoder: Encoder, text: str, *shown: Message, ended: bool = True, request: Message | None = None) -> Turn:
    ids = (*encoder.text(text), encoder.end_id) if ended else encoder.text(text)
    return Turn(
        text=text,
        token_ids=ids,
        logprobs=(0.0,) * len(ids),
        action=ParseError(reason="none"),
        observation=shown[0] if shown else None,
        request=request,
    )


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
@pytest.mark.parametrize("text", ["Look.", "", "<|im_end|>"])
@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("system", [True, False])
def test_put_together_it_is_the_finished_episode(
    encoder: Encoder, role: str, text: str, ended: bool, system: bool
) -> None:
    if not text and not ended:
        ended = True  # nothing at all is sampled by nobody
    prompt = (*((said("system", "Be brief."),) if system else ()), said("user", "Which colour?"))
    last = said("user", "Answer now.")
    turns = (
        turn(encoder, text, said(role, "It gave 3."), ended=ended),
        turn(encoder, "And?", said(role, "4\n"), ended=ended, request=last),
        turn(encoder, text, ended=ended),
    )
    task = Task(id="t", question="Which colour?")
    rewritten = token_trajectory(Trajectory(id="t#0", task=task, prompt=prompt, turns=turns), encoder)
    stream = TokenStream(encoder, "t#0")
    ids: list[int] = []
    for number, written in enumerate(turns):
        delta = stream.prompt_delta(conversation(prompt, turns[:number]))
        assert delta.dropped <= len(ids)
        del ids[len(ids) - delta.dropped :]
        ids += delta.ids
        stream.add_sampled(written.token_ids or (), written.text)
        ids += written.token_ids or ()
    assert ids == rewritten.ids().tolist()
