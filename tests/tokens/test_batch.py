"""Batches: a trajectory gives the same numbers alone, padded and packed, and its pictures are its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.tiny import tiny_folder
from tests.tokens.support import FAMILIES
from tests.training.rl.policies import policy
from tests.training.sft.train.support import said, trajectory, write_run

from saccade.episode.run_folder import RunFolder
from saccade.errors import SettingsError, TrainingError
from saccade.models.base import Request
from saccade.models.local_text import LocalSettings
from saccade.models.local_weights import Checkpoint, load_checkpoint
from saccade.record.content import Message, ParseError
from saccade.record.task import Task
from saccade.record.trajectory import Trajectory, Turn, conversation
from saccade.tokens.batch import BatchRow, Collator, TokenStream, forward_passes, token_row, token_trajectory, work
from saccade.tokens.encoder import Encoder
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.prompt import build_prompt
from saccade.tokens.segments import PromptPicture, TokenTrajectory
from saccade.training.sft.run import token_loss
from saccade.training.weights import TokenScorer


@pytest.fixture(scope="module", params=FAMILIES)
def checkpoint(request: pytest.FixtureRequest) -> Checkpoint:
    torch.set_num_threads(1)  # threads that spin are slow beside other tests
    return load_checkpoint(str(tiny_folder(request.param)), LocalSettings(device="cpu"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return write_run(tmp_path_factory.mktemp("run"), 0)


def encoder_of(checkpoint: Checkpoint) -> Encoder:
    return Encoder(
        "tiny", checkpoint.tokenizer, checkpoint.image_processor, checkpoint.model.config, checkpoint.chat_template
    )


def rows(checkpoint: Checkpoint, run: RunFolder) -> list[BatchRow]:
    encoder = encoder_of(checkpoint)
    return [
        token_row(token_trajectory(trajectory(run, number, looks=looks), encoder))
        for number, looks in enumerate((0, 2, 1))
    ]


def loss(checkpoint: Checkpoint, run: RunFolder, chosen: list[BatchRow], *, packed: bool) -> float:
    encoder = encoder_of(checkpoint)
    collate = Collator(encoder, PictureTensors(encoder, run.store), checkpoint.model, packed=packed)
    batch = collate(chosen)
    with torch.no_grad():
        scorer = TokenScorer(checkpoint.model, checkpoint.forbidden, chunk=1024)
        found = token_loss(scorer, batch, batch.lay_out([row.trained for row in chosen], False))
    assert found.tokens == sum(int(row.trained.sum()) for row in chosen)
    return float(found.total)


def test_alone_padded_and_packed_give_one_loss(checkpoint: Checkpoint, run: RunFolder) -> None:
    several = rows(checkpoint, run)
    alone = sum(loss(checkpoint, run, [row], packed=False) for row in several)
    assert loss(checkpoint, run, several, packed=False) == pytest.approx(alone, rel=1e-5)
    if checkpoint.family.attention == "full":
        assert loss(checkpoint, run, several, packed=True) == pytest.approx(alone, rel=1e-5)
    else:
        with pytest.raises(SettingsError, match="layout=padded"):
            loss(checkpoint, run, several, packed=True)


def test_pictures_follow_their_trajectories(checkpoint: Checkpoint, run: RunFolder) -> None:
    first, second, third = rows(checkpoint, run)
    one = loss(checkpoint, run, [first, second, third], packed=False)
    assert loss(checkpoint, run, [third, first, second], packed=False) == pytest.approx(one, rel=1e-5)


def test_positions_are_those_of_the_model(checkpoint: Checkpoint, run: RunFolder) -> None:
    (row,) = rows(checkpoint, run)[1:2]
    encoder = encoder_of(checkpoint)
    batch = Collator(encoder, PictureTensors(encoder, run.store), checkpoint.model, packed=False)([row])
    ids = torch.from_numpy(row.ids)[None]
    arguments: dict[str, Any] = {"input_ids": ids, **batch.pictures}
    if encoder.family.rope_axes == 3:
        arguments["mm_token_type_ids"] = (ids == encoder.placeholder_id).int()
    with torch.no_grad():
        own = checkpoint.model(**arguments).logits
        ours = checkpoint.model(input_ids=ids, position_ids=batch.positions, **batch.pictures).logits
    torch.testing.assert_close(ours, own, rtol=1e-5, atol=1e-5)


def test_what_is_learned_is_what_inference_reads(checkpoint: Checkpoint, run: RunFolder) -> None:
    """`LocalModel` renders the conversation by the chat template; the same ids and pictures come out."""
    encoder = encoder_of(checkpoint)
    one = trajectory(run, 3, looks=2)
    tokens = token_trajectory(one, encoder)
    opening = encoder.frame.opening
    turns = [
        turn.model_copy(update={"text": encoder.family.answer(turn.text, opening)}) for turn in one.turns
    ]  # as a model that learned it would have written it
    for done in range(3):
        before = TokenTrajectory("t", tokens.segments[: 2 * done + 1])
        messages = conversation(one.prompt, turns[:done])
        prompt = build_prompt(Request(messages=messages), checkpoint)
        assert list(prompt.ids) == before.ids().tolist()
        assert prompt.pictures == before.pictures


def test_what_is_kept_changes_no_pixel(checkpoint: Checkpoint, run: RunFolder, tmp_path: Path) -> None:
    encoder = encoder_of(checkpoint)
    pictures = [picture for row in rows(checkpoint, run) for picture in row.pictures]
    plain = encoder.image_processor(
        images=[run.store.open(picture.part).decode() for picture in pictures],
        return_tensors="pt",
        **dict(encoder.family.picture_options),
    )
    for most in (2**20, 1):
        shelf = PictureTensors(encoder, run.store, most)
        for _ in range(2):
            assert torch.equal(shelf(pictures)["pixel_values"], plain["pixel_values"])


def test_a_picture_of_another_size_is_noticed(checkpoint: Checkpoint, run: RunFolder) -> None:
    encoder = encoder_of(checkpoint)
    (picture, *_) = rows(checkpoint, run)[0].pictures
    said = (
        rf"the picture {picture.part.sha256[:12]} has {picture.tokens} features and {picture.tokens + 1} placeholders"
    )
    with pytest.raises(TrainingError, match=said):
        PictureTensors(encoder, run.store)([PromptPicture(picture.part, picture.tokens + 1)])


def test_no_picture_no_tensors(checkpoint: Checkpoint, run: RunFolder) -> None:
    assert PictureTensors(encoder_of(checkpoint), run.store)([]) == {}


def test_the_loss_is_on_the_turns_that_are_named(checkpoint: Checkpoint, run: RunFolder) -> None:
    tokens = token_trajectory(trajectory(run, 0, looks=2), encoder_of(checkpoint))
    turns = tokens.turns()
    assert token_row(tokens).trained.tolist() == [turn >= 0 for turn in turns]
    assert token_row(tokens, [1]).trained.tolist() == [turn == 1 for turn in turns]
    assert token_row(tokens, [0, 2]).trained.tolist() == [turn in (0, 2) for turn in turns]
    assert not token_row(tokens, []).trained.any()
    assert len(token_row(tokens)) == len(tokens)


def test_where_values_lie_in_a_batch(checkpoint: Checkpoint, run: RunFolder) -> None:
    encoder = encoder_of(checkpoint)
    short, long = (
        BatchRow(name, np.arange(length), np.ones(length, bool), ()) for name, length in (("short", 2), ("long", 3))
    )
    full = encoder.family.attention == "full"
    made = {
        packed: Collator(encoder, PictureTensors(encoder, run.store), checkpoint.model, packed=packed)([short, long])
        for packed in ((True, False) if full else (False,))
    }
    values = [np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])]
    if full:
        assert made[True].ids.tolist() == [[0, 1, 0, 1, 2]]
        assert made[True].spans == ((0, 0, 2), (0, 2, 3))
        assert made[True].lay_out(values, 9.0).tolist() == [[1, 2, 3, 4, 5]]
    assert made[False].ids.tolist() == [[0, 1, encoder.pad_id], [0, 1, 2]]
    assert made[False].spans == ((0, 0, 2), (1, 0, 3))
    assert made[False].lay_out(values, 9.0).tolist() == [[1, 2, 9], [3, 4, 5]]
    rope = encoder.family.rope_axes == 3
    for packed, rows_ in ((True, [[0, 1, 0, 1, 2]]), (False, [[0, 1, 2], [0, 1, 2]])):
        if packed not in made:
            continue
        positions = made[packed].positions
        assert positions.tolist() == ([rows_] * (4 if packed else 3) if rope else rows_)


def test_rows_are_grouped_by_length_within_the_limit() -> None:
    # Longest first: 5, 4, 3, 2. Padded, 4 and 3 take 8 of 9; packed, 5 and 4 take 9.
    assert forward_passes([3, 5, 2, 4], 9, packed=False) == [[1], [3, 0], [2]]
    assert forward_passes([3, 5, 2, 4], 9, packed=True) == [[1, 3], [0, 2]]
    assert forward_passes([12], 9, packed=False) == [[0]]


def test_work_is_tokens_more_in_a_long_row_and_some_for_each_pass() -> None:
    """A row of 3000 tokens costs twice its tokens, by its attention; each pass 200 tokens for itself."""
    assert work([3000, 300, 0], [[0], [1], [2], [0, 1], []]) == [6200.0, 530.0, 200.0, 6530.0, 200.0]


def test_passes_take_as_many_tokens_as_they_may() -> None:
    assert forward_passes([4, 2, 3], 6, packed=True) == [[0], [2, 1]]
    assert forward_passes([4, 2, 3], 7, packed=True) == [[0, 2], [1]]
    assert forward_passes([4, 2, 3], 9, packed=True) == [[0, 2, 1]]
    assert forward_passes([4, 2, 3], 8, packed=False) == [[0, 2], [1]]  # padded to 4 each
    assert forward_passes([4, 2, 3], 11, packed=False) == [[0, 2], [1]]
    assert forward_passes([4, 2, 3], 12, packed=False) == [[0, 2, 1]]
    assert forward_passes([9, 1, 1], 3, packed=False) == [[0], [1, 2]]
    assert forward_passes([2, 2, 2], 4, packed=True) == [[0, 1], [2]]
    assert forward_passes([], 4, packed=True) == []


@pytest.fixture(scope="module")
def qwen_encoder() -> Encoder:
    return policy(tiny_folder()).encoder


def turn_of(
    qwen_encoder: Encoder, text: str, *shown: Message, ended: bool = True, request: Message | None = None
) -> Turn:
    ids = (*qwen_encoder.text(text), qwen_encoder.end_id) if ended else qwen_encoder.text(text)
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
    qwen_encoder: Encoder, role: str, text: str, ended: bool, system: bool
) -> None:
    if not text and not ended:
        ended = True  # nothing at all is sampled by nobody
    prompt = (*((said("system", "Be brief."),) if system else ()), said("user", "Which colour?"))
    last = said("user", "Answer now.")
    turns = (
        turn_of(qwen_encoder, text, said(role, "It gave 3."), ended=ended),
        turn_of(qwen_encoder, "And?", said(role, "4\n"), ended=ended, request=last),
        turn_of(qwen_encoder, text, ended=ended),
    )
    task = Task(id="t", question="Which colour?")
    rewritten = token_trajectory(Trajectory(id="t#0", task=task, prompt=prompt, turns=turns), qwen_encoder)
    stream = TokenStream(qwen_encoder, "t#0")
    ids: list[int] = []
    for number, written in enumerate(turns):
        delta = stream.prompt_delta(conversation(prompt, turns[:number]))
        assert delta.dropped <= len(ids)
        del ids[len(ids) - delta.dropped :]
        ids += delta.ids
        stream.add_sampled(written.token_ids or (), written.text)
        ids += written.token_ids or ()
    assert ids == rewritten.ids().tolist()
