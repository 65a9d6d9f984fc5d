"""Episodes without a sandbox: what each of four is shown before its turns, and how one is played at a slot."""

from __future__ import annotations

from dataclasses import replace

from PIL import Image
from tests.training.rl.policies import TinyPolicy, said

from saccade.media.store import MediaStore
from saccade.record.content import ImagePart
from saccade.tokens.batch import TokenStream
from saccade.tokens.segments import SegmentKind, TokenSegment, TokenTrajectory
from saccade.tokens.turn import Slot, TurnRequest


def picture(store: MediaStore, number: int) -> ImagePart:
    colour = ("red", "green", "blue", "gold")[number % 4]
    image = Image.new("RGB", (56 + 28 * (number % 3), 56), colour)
    image.paste((0, 0, 0), (5, 5, 20 + number, 30))
    return store.put_image(image)


def conversations(store: MediaStore) -> list[list[list[object]]]:
    """What four episodes are shown before each of their turns: ragged, some without pictures."""
    return [
        [[picture(store, 0), "Which colour?"], ["Here: ", picture(store, 1)], ["And?"]],
        [["Say something."], ["Here: ", picture(store, 2), picture(store, 3)]],
        [[picture(store, 2), "Which colour is the square in this rather long question?"]],
        [[picture(store, 0), "Which colour?"], ["Nothing came back."], [picture(store, 1)]],
    ]


async def episode(slot: Slot, made: TinyPolicy, shown: list[list[object]], heat: float, most: int) -> TokenTrajectory:
    messages = [said("system", "Look.")]
    stream = TokenStream(made.encoder, "test")
    segments: list[TokenSegment] = []
    for number, parts in enumerate(shown):
        messages.append(said("user", *parts))  # type: ignore[arg-type]
        delta = stream.prompt_delta(messages)
        if delta.dropped:
            last = segments[-1]
            kept = len(last.ids) - delta.dropped
            segments[-1] = replace(last, ids=last.ids[:kept], logprobs=(last.logprobs or ())[:kept])
        done = await slot.generate(TurnRequest(delta, temperature=heat, max_tokens=most + number))
        stream.add_sampled(done.ids, done.text)
        segments.append(
            TokenSegment(SegmentKind.OBSERVATION if segments else SegmentKind.PROMPT, delta.ids, delta.pictures)
        )
        segments.append(TokenSegment(SegmentKind.SAMPLED, done.ids, turn=number, logprobs=done.logprobs))
        if done.text:
            messages.append(said("assistant", done.text))
    slot.release()
    tokens = TokenTrajectory("test", tuple(segments))
    assert tuple(tokens.ids().tolist()) == slot.ids
    return tokens
