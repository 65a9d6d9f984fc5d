"""Videos in the engines of this process: tokens are those of `generate`, and training scores are those of sampling."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.tiny import tiny_folder

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.models.helpers import ask, said
from tests.tokens.generate.support import Passes, answered
from tests.tokens.videos import Videos, record

from saccade.models.base import Request
from saccade.models.local_text import LocalSettings
from saccade.models.local_weights import Checkpoint, load_checkpoint
from saccade.record.content import Message, ParseError
from saccade.record.task import Task
from saccade.record.trajectory import Sampling, Trajectory, Turn
from saccade.tokens.batch import Collator, TokenStream, token_row, token_trajectory
from saccade.tokens.decoder import PlainPolicy, Scheduler, TransformersEngine
from saccade.tokens.encoder import Encoder
from saccade.tokens.local_model import LocalModel
from saccade.tokens.pictures import PictureTensors
from saccade.tokens.prompt import build_prompt
from saccade.tokens.turn import TurnRequest
from saccade.training.weights import TokenScorer

VIDEOS = Videos()
LONG = VIDEOS.put(9, 120, 90)
SHORT = VIDEOS.put(4, 64, 64, milliseconds=50, seed=1)
CHOSEN = record(9, 120, 90, LONG.fps, (1, 4, 5, 8), sha256=LONG.sha256)
FAMILIES = ("qwen2_5_vl", "qwen3_vl", pytest.param("qwen3_5", marks=pytest.mark.slow))


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest) -> Path:
    torch.set_num_threads(1)
    return tiny_folder(request.param)


@pytest.fixture(scope="module")
def checkpoint(folder: Path) -> Checkpoint:
    return load_checkpoint(str(folder), LocalSettings(device="cpu"))


def encoder_of(one: Checkpoint) -> Encoder:
    return Encoder.of(one)


def generated(one: Checkpoint, request: Request, tokens: int) -> list[int]:
    """What `generate` of transformers writes after the whole context, without what is never sampled."""
    prompt = build_prompt(request, one)
    ids = torch.tensor([prompt.ids])
    clips = [picture.clip for picture in prompt.pictures if picture.clip is not None]
    given: dict[str, Any] = dict(PictureTensors(one, VIDEOS)(prompt.pictures))
    if one.family.model_type == "qwen2_5_vl":
        given["second_per_grid_ts"] = [clip.interval for clip in clips]
    given["mm_token_type_ids"] = (ids == one.placeholder_id).int() + 2 * (ids == one.config.video_token_id).int()
    banned = torch.nonzero(one.forbidden).tolist()
    with torch.inference_mode():
        made = one.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            do_sample=False,
            bad_words_ids=banned,
            **given,
        )
    written: list[int] = made[0, ids.shape[1] :].tolist()
    return written


def greedy(*messages: Message, tokens: int = 12) -> Request:
    return Request(messages, sampling=Sampling(max_tokens=tokens))


ASKED = (
    greedy(said("user", SHORT, "What is it?")),
    greedy(said("system", "Look."), said("user", "First ", CHOSEN, " then ", SHORT, " and?")),
    greedy(said("user", "See", LONG)),
)


def test_greedy_tokens_are_those_of_generate(checkpoint: Checkpoint) -> None:
    expected = [tuple(generated(checkpoint, request, 12)) for request in ASKED]
    together = answered(Scheduler(PlainPolicy(checkpoint), most_sequences=4), VIDEOS, *ASKED)
    assert [turn.ids for turn in together] == expected
    assert len(set(expected)) == len(expected)


def test_a_later_turn_reads_the_video_no_more(checkpoint: Checkpoint) -> None:
    scheduler = Scheduler(PlainPolicy(checkpoint), most_sequences=2)
    first = ASKED[1]
    (turn,) = answered(scheduler, VIDEOS, first)
    later = greedy(*first.messages, said("assistant", turn.text), said("user", "Sure?"))
    with Passes(checkpoint) as passes:
        (second,) = answered(scheduler, VIDEOS, later)
    alone = answered(Scheduler(PlainPolicy(checkpoint), most_sequences=1), VIDEOS, later)[0]
    assert second.ids == alone.ids == tuple(generated(checkpoint, later, 12))
    if checkpoint.family.attention == "full":
        full = build_prompt(later, checkpoint)
        assert passes.shapes[0][1] <= len(full.ids) - full.ends[-1]
    other = greedy(said("user", CHOSEN, "What is it?"))
    mine = greedy(said("user", record(9, 120, 90, LONG.fps, (1, 4, 5, 7), sha256=LONG.sha256), "What is it?"))
    answered(scheduler, VIDEOS, other)
    fresh = answered(Scheduler(PlainPolicy(checkpoint), most_sequences=1), VIDEOS, mine)[0]
    again = answered(scheduler, VIDEOS, mine)[0]  # the same ids up to the question, and other frames
    assert again.ids == fresh.ids
    assert again.logprobs == pytest.approx(fresh.logprobs, abs=1e-5)


async def _played(one: Checkpoint, encoder: Encoder, prompts: list[tuple[Message, ...]]) -> list[Trajectory]:
    engine = TransformersEngine(PlainPolicy(one), VIDEOS)

    async def play(number: int, slot: Any, prompt: tuple[Message, ...]) -> Trajectory:
        stream, turns, messages = TokenStream(encoder, f"t#{number}"), [], list(prompt)
        for last in (False, True):
            made = await slot.generate(TurnRequest(stream.prompt_delta(messages), max_tokens=8))
            stream.add_sampled(made.ids, made.text)
            seen = None if last else said("user", "Look again: ", SHORT)
            turns.append(
                Turn(
                    text=made.text,
                    token_ids=made.ids,
                    logprobs=made.logprobs,
                    action=ParseError(reason="none"),
                    observation=seen,
                    finish_reason=made.finish,
                )
            )
            messages += [said("assistant", made.text), said("user", "Look again: ", SHORT)]
        slot.release()
        return Trajectory(id=f"t#{number}", task=Task(id="t", question="?"), prompt=prompt, turns=tuple(turns))

    slots = engine.slots([3, 4, 5])
    made = await asyncio.gather(
        *(play(at, slot, one) for at, (slot, one) in enumerate(zip(slots, prompts, strict=True)))
    )
    await engine.close()
    return list(made)


async def test_training_scores_are_those_of_sampling(checkpoint: Checkpoint) -> None:
    """Also where a video lasts longer than it is wide, and later turns have positions behind it."""
    encoder = encoder_of(checkpoint)
    slow = record(9, 120, 90, 0.5, (0, 1, 2, 3, 4, 5, 6, 7, 8), sha256=LONG.sha256)
    prompts = [ASKED[1].messages, (said("user", slow, "Hm?"),), (said("user", "No video."),)]
    played = await _played(checkpoint, encoder, prompts)
    rows = [token_row(token_trajectory(one, encoder)) for one in played]
    scorer = TokenScorer(checkpoint.model, checkpoint.forbidden, chunk=64)
    layouts = (True, False) if checkpoint.family.attention == "full" else (False,)
    for packed in layouts:
        batch = Collator(encoder, PictureTensors(encoder, VIDEOS), checkpoint.model, packed=packed)(rows)
        with torch.no_grad():
            scores = scorer(batch, batch.lay_out([row.trained for row in rows], False))
        sampled = np.concatenate([np.array(turn.logprobs or ()) for one in played for turn in one.turns])
        assert scores.logprobs.numpy() == pytest.approx(sampled, abs=2e-4)


async def test_a_model_counts_what_it_saw(folder: Path, checkpoint: Checkpoint) -> None:
    model = LocalModel(str(folder))
    request = ask(LONG, "What?", sampling=Sampling(max_tokens=4))
    answer = await model.complete(request, VIDEOS)
    plain = await model.complete(ask("What?", sampling=Sampling(max_tokens=4)), VIDEOS)
    assert answer.usage.visual_tokens == build_prompt(request, checkpoint).visual > 0
    assert plain.usage.visual_tokens == 0
    await model.close()
