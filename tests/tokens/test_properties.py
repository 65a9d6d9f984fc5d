"""Random trajectories of every dialect and family: what holds for all of them."""

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tokens.support import END, FAMILIES, SPECIAL, Reference, encoder, features, special_tokens

from saccade.dialects.base import DIALECTS, Dialect, load_dialect, presets
from saccade.dialects.direct import DirectDialect
from saccade.errors import SettingsError, TrainingError
from saccade.record.content import Answer, ImagePart, ParseError, VideoPart
from saccade.record.execution import Execution, ExecutionPicture, Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import FinishReason, Trajectory, Turn
from saccade.tokens.batch import token_trajectory
from saccade.tokens.segments import SegmentKind, TokenTrajectory, truncate

ALL_DIALECTS = [
    name
    for entry in DIALECTS.ids()
    for name in (f"{entry}:{preset}".rstrip(":") for preset in presets(entry) or ("",))
    if not isinstance(load_dialect(name), DirectDialect)  # their episodes have no observations
]
HOSTILE = st.lists(
    st.one_of(st.sampled_from(SPECIAL), st.sampled_from(["\n", " ", "assistant\n", "<image>"]), st.text(max_size=8)),
    max_size=6,
).map("".join)
CLIP = VideoPart(sha256="c" * 64, width=64, height=64, frames=30, fps=10.0, seconds=3.0)
quick = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def pictures(draw: st.DrawFn) -> ImagePart:
    width, height = draw(st.sampled_from([(20, 20), (64, 48), (300, 40), (33, 200), (120, 90)]))
    name = hashlib.sha256(f"{width}x{height}".encode()).hexdigest()
    return ImagePart(sha256=name, width=width, height=height)


def task(question: str, dialect: Dialect, picture: ImagePart) -> Task:
    for part in (picture, CLIP):
        one = Task(id="t", question=question or "?", media=(NamedMedia(name="m.png", part=part),))
        try:
            opening = dialect.open(one)
        except SettingsError:
            continue
        if not any(isinstance(part, VideoPart) for message in opening.messages for part in message.parts):
            return one
    raise AssertionError(f"{dialect.id} takes neither a picture nor a clip")


@st.composite
def turns(draw: st.DrawFn, dialect: Dialect, shown: int, last: bool, family: str) -> Turn:
    tokenizer: Any = encoder(family)._tokenizer
    text = draw(HOSTILE)
    finish = draw(st.sampled_from([None, FinishReason.STOP, FinishReason.STOP_STRING, FinishReason.LENGTH]))
    action = Answer(text="x") if last else ParseError(reason="nothing")
    observation = request = None
    if not last:
        seen = tuple(ExecutionPicture(image=part, source="figure") for part in draw(st.lists(pictures(), max_size=2)))
        execution = Execution(status=Status.OK, stdout=draw(HOSTILE), pictures=seen, committed=True)
        observation = draw(st.sampled_from([dialect.observe(execution, shown), dialect.correct("why", shown)]))
        request = dialect.ask_for_answer() if draw(st.booleans()) else None
    ids = None
    if draw(st.booleans()):  # as a policy may sample it: other cuts than the tokenizer's own
        pieces = [tokenizer.encode(c, add_special_tokens=False, split_special_tokens=True) for c in text]
        ids = tuple(token for piece in pieces for token in piece)
        ids += (encoder(family).end_id,) if finish is FinishReason.STOP else ()
    return Turn(
        text=text,
        token_ids=ids,
        logprobs=None if ids is None else (-0.5,) * len(ids),
        action=action,
        observation=None if observation is None else observation.message,
        request=request,
        finish_reason=finish,
    )


@st.composite
def trajectories(draw: st.DrawFn, dialect: Dialect, family: str) -> Trajectory:
    about = task(draw(HOSTILE), dialect, draw(pictures()))
    count = draw(st.integers(1, 4))
    made = [draw(turns(dialect, 1 + n, n == count - 1, family)) for n in range(count)]
    return Trajectory(id="t", task=about, prompt=dialect.open(about).messages, turns=tuple(made))


def check(tokens: TokenTrajectory, family: str) -> None:
    one = encoder(family)
    ids = tokens.ids()
    assert len(ids) == len(tokens.turns()) == len(tokens.loss_mask()) == len(tokens.logprobs()) == len(tokens)
    for segment in tokens.segments:
        placeholders = segment.ids.count(one.placeholder_id)
        assert placeholders == sum(features(family, p.part.width, p.part.height) for p in segment.pictures)
        assert placeholders == segment.visual
    assert not tokens.loss_mask()[ids == one.placeholder_id].any()
    assert not tokens.loss_mask()[np.isin(ids, list(one.reserved_ids))].any()


@pytest.mark.parametrize("dialect_id", ALL_DIALECTS)
@quick
@given(family=st.sampled_from(FAMILIES), data=st.data())
@pytest.mark.few(6)
def test_any_trajectory(dialect_id: str, family: str, data: st.DataObject) -> None:
    one = encoder(family)
    trajectory = data.draw(trajectories(load_dialect(dialect_id), family))
    tokens = token_trajectory(trajectory, one)
    check(tokens, family)

    reference = Reference(family, trajectory)
    decoded = one.decode(tokens.ids().tolist())
    last = trajectory.turns[-1]
    if last.token_ids is not None and last.finish_reason not in (FinishReason.STOP, FinishReason.LENGTH):
        reference.text = reference.text.removesuffix(END[family])  # nobody sampled it
        reference.marks[END[family]] -= 1
    elif last.token_ids is None and last.finish_reason is FinishReason.LENGTH:
        assert not decoded.endswith(last.text + END[family])
    assert decoded == reference.text
    assert special_tokens(tokens.ids().tolist(), one._tokenizer) == +reference.marks

    sampled = [segment for segment in tokens.segments if segment.kind is SegmentKind.SAMPLED]
    assert [segment.turn for segment in sampled] == list(range(len(trajectory.turns)))
    for segment, turn in zip(sampled, trajectory.turns, strict=True):
        ended = one.decode(segment.ids[-1:]) if segment.ids[-1:] and segment.ids[-1] in one.end_ids else ""
        assert one.decode(segment.ids).removesuffix(ended) == turn.text
        if turn.token_ids is not None:
            assert segment.ids == turn.token_ids[: len(segment.ids)]
    assert tokens.loss_mask().sum() == sum(len(segment.ids) for segment in sampled)


@pytest.mark.parametrize("family", FAMILIES)
@quick
@given(data=st.data())
def test_truncation_keeps_all_that(family: str, data: st.DataObject) -> None:
    trajectory = data.draw(trajectories(load_dialect("pyvision@1"), family))
    tokens = token_trajectory(trajectory, encoder(family))
    most = data.draw(st.integers(1, len(tokens) + 10))
    try:
        short = truncate(tokens, most)
    except TrainingError:
        assert sum(len(segment.ids) for segment in tokens.segments[:2]) > most
        return
    check(short, family)
    assert len(short) <= most
    assert short.segments[0] == tokens.segments[0]
    assert short.segments[-1].kind is SegmentKind.SAMPLED
    assert np.array_equal(short.ids(), tokens.ids()[: len(short)])
    assert short.pictures == tokens.pictures[: len(short.pictures)]
    kept = len(short.segments)
    following = sum(len(segment.ids) for segment in tokens.segments[: kept + 2])
    assert kept == len(tokens.segments) or following > most


@pytest.mark.parametrize("family", FAMILIES)
@quick
@given(text=HOSTILE)
def test_no_text_makes_a_special_token(family: str, text: str) -> None:
    one = encoder(family)
    ids = one.text(text)
    assert not special_tokens(ids, one._tokenizer)
    assert one.decode(ids) == text
