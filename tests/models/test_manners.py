"""Servers that refuse the usual way to put a request are asked another way, and the model is told of what is lost."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from starlette.responses import JSONResponse, Response
from tests.models.helpers import Media, endpoint, said
from tests.models.wire_server import WireServer, chat

from saccade.core.retry import RetryPolicy
from saccade.errors import DecodeError, ModelRefusedError
from saccade.models.base import Request
from saccade.models.pictures import PictureRules, encoded_picture, fitting_size, padded_size
from saccade.models.providers.openai import OpenAIModel
from saccade.models.thinking import MANNERS, Manners, kind_of
from saccade.record.content import ImagePart, Message, TextPart, ToolCall

Rule = Callable[[list[dict[str, Any]]], str]
Maker = Callable[..., OpenAIModel]


@pytest.fixture
async def make(server: WireServer) -> AsyncIterator[Maker]:
    made: list[OpenAIModel] = []

    def maker(kind: str = "compatible") -> OpenAIModel:
        there = endpoint(server.url + "/v1", retry=RetryPolicy(tries=2, first_seconds=0))
        made.append(OpenAIModel(there, server=kind, api_key="k-1"))
        return made[-1]

    yield maker
    for model in made:
        await model.close()


def strict(rule: Rule, status: int = 400) -> Any:
    """Answers `fine` to what keeps the rule, and says its words of anything else."""

    async def behave(body: dict[str, Any]) -> Response:
        if words := rule(body["messages"]):
            return JSONResponse({"error": {"message": words, "code": None}}, status)
        return await chat("fine")(body)

    return behave


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


def mistral(messages: list[dict[str, Any]]) -> str:
    pairs = list(zip(roles(messages), roles(messages)[1:], strict=False))
    return "Unexpected role 'user' after role 'tool'" if ("tool", "user") in pairs else ""


def text_tools(messages: list[dict[str, Any]]) -> str:
    """As `mistral`, and a tool's message holds text alone."""
    held = [message for message in messages if message["role"] == "tool" and not isinstance(message["content"], str)]
    return mistral(messages) or ("Expected user not to follow tool: content of tool must be text" if held else "")


def gemma2(messages: list[dict[str, Any]]) -> str:
    return "System role not supported" if "system" in roles(messages) else ""


def alternating(messages: list[dict[str, Any]]) -> str:
    given = roles(messages)
    right = all(role == ("user", "assistant")[at % 2] for at, role in enumerate(given))
    return "" if right else "Conversation roles must alternate user/assistant/user/assistant/..."


def sized(refused: Callable[[int, int], str]) -> Rule:
    def rule(messages: list[dict[str, Any]]) -> str:
        return next((words for size in sizes(messages) if (words := refused(*size))), "")

    return rule


def sizes(messages: list[dict[str, Any]]) -> list[tuple[int, int]]:
    parts = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [Image.open(BytesIO(base64.b64decode(url.partition(",")[2]))).size for url in urls]


def counted(most: int) -> Rule:
    return lambda messages: (
        f"At most {most} image(s) may be provided in one prompt." if len(sizes(messages)) > most else ""
    )


def conversation(media: Media, *results: tuple[int, int], native: bool = True, question: int = 1) -> Request:
    """A question with pictures, and a call for each result, which holds a picture of that size."""
    own = [media.put(Image.new("RGB", (100 + number, 90), "blue")) for number in range(question)]
    messages = [said("system", "Look."), said("user", *own, "What?")]
    for number, size in enumerate(results):
        picture = media.put(Image.new("RGB", size, (number, 9, 9)))
        parts = (TextPart(text="Out:\n"), picture)
        if native:
            call = ToolCall(name="f", arguments={}, call_id=f"c{number}")
            messages.append(Message(role="assistant", parts=(), calls=(call,)))
            messages.append(Message(role="tool", parts=parts, call_id=f"c{number}"))
        else:
            messages += [said("assistant", "code"), Message(role="user", parts=parts)]
    return Request(tuple(messages))


def sent_text(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"])


@pytest.mark.parametrize("words", ["", "Conversation roles must alternate user/assistant (except for tool calls)"])
async def test_the_pictures_of_a_result_go_inside_the_tools_message(
    server: WireServer, make: Maker, caplog: pytest.LogCaptureFixture, words: str
) -> None:
    media = Media()
    server.will(strict(lambda messages: mistral(messages) and (words or mistral(messages)))).has_rules = False
    model = make()
    for _ in range(2):
        answer = await model.complete(conversation(media, (50, 50), (60, 60)), media)
        assert (answer.text, answer.notes) == ("fine", (MANNERS["inside"].words,))
    assert len(server.bodies) == 3  # found out once
    assert roles(server.bodies[-1]["messages"]) == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert len(sizes(server.bodies[-1]["messages"])) == 3
    assert len([line for line in caplog.messages if MANNERS["inside"].words in line]) == 1


async def test_a_bridge_where_tools_hold_text_alone(server: WireServer, make: Maker) -> None:
    media = Media()
    for rule, rules in ((text_tools, False), (mistral, True)):  # the second server's own words are others
        server.will(strict(rule)).has_rules = rules
        await bridged(server, make(), media)


async def bridged(server: WireServer, model: OpenAIModel, media: Media) -> None:
    request = conversation(media, (50, 50))
    asks = Request((*request.messages, said("user", "Answer now.")))
    assert (await model.complete(asks, media)).text == "fine"
    assert roles(server.bodies[-1]["messages"])[3:6] == ["tool", "assistant", "user"]
    assert "Answer now." in sent_text(server.bodies[-1])


@pytest.mark.parametrize("status", [400, 500])
async def test_system_texts_and_roles_in_a_row(server: WireServer, make: Maker, status: int) -> None:
    media = Media()
    for rule in (gemma2, alternating):
        server.will(strict(rule, status))
        request = conversation(media, (50, 50), native=False)
        asks = Request((*request.messages, said("user", "Answer now.")))
        assert (await make().complete(asks, media)).text == "fine"
        sent = server.bodies[-1]["messages"]
        assert "Look." in json.dumps(sent[0])
        assert sent[0]["role"] == "user"
        assert len(sizes(sent)) == 2
        assert sent_text(server.bodies[-1]).index("Look.") < sent_text(server.bodies[-1]).index("What?")


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("size", "words", "broken", "padded"),
    [
        ((332, 20), "height:20 and width:332 must be larger than factor:28", lambda w, h: min(w, h) < 28, (332, 28)),
        ((40, 20), "height:20 or width:40 must be larger than factor:32", lambda w, h: min(w, h) < 32, (40, 32)),
        ((3, 5), "Image too small: sides must be at least 64 pixels", lambda w, h: min(w, h) < 64, (65, 65)),
        ((900, 3), "absolute aspect ratio must be smaller than 200, got 300", lambda w, h: w > 200 * h, (900, 28)),
        ((8000, 3), "absolute aspect ratio must be smaller than 200, got 2666", lambda w, h: w > 200 * h, (8000, 41)),
        (
            (5, 50),
            "The image length and width do not meet the model restrictions. [width:5 must be larger than 10]",
            lambda w, h: min(w, h) <= 10,
            (28, 50),
        ),
    ],
)
async def test_small_pictures_are_padded(
    server: WireServer,
    make: Maker,
    native: bool,
    size: tuple[int, int],
    words: str,
    broken: Callable[[int, int], bool],
    padded: tuple[int, int],
) -> None:
    media = Media()
    server.will(strict(sized(lambda w, h: words if broken(w, h) else "")))
    model = make("vllm")
    answer = await model.complete(conversation(media, size, native=native), media)
    assert (answer.text, answer.notes) == ("fine", (MANNERS["padded"].words,))
    assert sizes(server.bodies[-1]["messages"]) == [(100, 90), padded]
    assert len(server.bodies) == 2


def test_padding_moves_nothing() -> None:
    assert padded_size((332, 20), PictureRules(least_side=28)) == (332, 28)
    assert padded_size((332, 40), PictureRules(least_side=28, ratio=199)) == (332, 40)
    assert padded_size((1000, 1), PictureRules(ratio=100)) == (1000, 10)
    assert padded_size((5, 5), PictureRules()) == (5, 5)


async def test_what_cannot_be_mended_is_told_to_the_model(server: WireServer, make: Maker) -> None:
    media = Media()
    server.will(strict(sized(lambda w, h: "Failed to decode image" * (w == 50))))
    model = make()
    request = conversation(media, (60, 60), (50, 50))
    answer = await model.complete(request, media)
    assert (answer.text, answer.notes) == ("fine", (MANNERS["left out"].words,))
    assert sizes(server.bodies[-1]["messages"]) == [(100, 90), (60, 60)]
    assert "did not take this picture: Failed to decode image" in sent_text(server.bodies[-1])
    # It stays away, and another one is found out anew.
    later = conversation(media, (60, 60), (50, 50), (50, 51))
    assert (await model.complete(later, media)).text == "fine"
    assert sizes(server.bodies[-1]["messages"]) == [(100, 90), (60, 60)]


@pytest.mark.parametrize("most", [1, 2, 3])
async def test_too_many_pictures(server: WireServer, make: Maker, most: int) -> None:
    media = Media()
    server.will(strict(counted(most)))
    answer = await make("vllm").complete(conversation(media, (60, 60), (61, 60), (62, 60)), media)
    assert answer.notes == (MANNERS["fewer"].words,)
    newest = [(60, 60), (61, 60), (62, 60)][4 - most :]
    assert sizes(server.bodies[-1]["messages"]) == [(100, 90), *newest]
    assert sent_text(server.bodies[-1]).count(f"at most {most} pictures") == 4 - most


async def test_large_pictures_are_made_smaller(server: WireServer, make: Maker) -> None:
    media = Media()
    server.will(strict(sized(lambda w, h: "image exceeds the maximum of 4000 pixels a side" * (max(w, h) > 4000))))
    answer = await make().complete(conversation(media, (5000, 100)), media)
    assert answer.notes == (MANNERS["smaller"].words,)
    assert sizes(server.bodies[-1]["messages"]) == [(100, 90), (2048, 40)]


async def test_pictures_of_the_question_are_never_left_out(server: WireServer, make: Maker) -> None:
    media = Media()
    for rule, tries in (
        (sized(lambda w, h: "Failed to decode image"), 1),
        (counted(1), 1),
        (lambda messages: "this model takes no image" if sizes(messages) else "", 1),
    ):
        server.will(strict(rule))
        with pytest.raises(ModelRefusedError):
            await make().complete(conversation(media, question=2), media)
        assert len(server.bodies) == tries


async def test_a_server_that_refuses_every_way_refuses(server: WireServer, make: Maker) -> None:
    media = Media()
    for words in ("roles must alternate", "user after tool", "System role not supported", "too many images",
                  "height must be larger than factor:28", "aspect ratio", "image too large"):  # fmt: skip
        server.will(strict(lambda messages, words=words: words))
        with pytest.raises(ModelRefusedError):
            await make().complete(conversation(media, (50, 50)), media)
        assert len(server.bodies) < 6, words


async def test_requests_side_by_side_learn_once(server: WireServer, make: Maker) -> None:
    media = Media()
    server.will(strict(sized(lambda w, h: f"height:{h} must be larger than factor:28" * (h < 28))))
    model = make()
    requests = [conversation(media, (300 + number, 20)) for number in range(4)]
    answers = await asyncio.gather(*(model.complete(request, media) for request in requests))
    assert {answer.notes for answer in answers} == {(MANNERS["padded"].words,)}
    assert [answer.text for answer in answers] == ["fine"] * 4


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("This model's maximum context length is 5 tokens", ""),
        ("messages with role 'tool' must be a response to a preceding message with 'tool_calls'", ""),
        ("An assistant message with 'tool_calls' must be followed by tool messages", ""),
        ("Invalid value for temperature", ""),
        ("max_tokens is too large: 30000.", ""),
        ("After the optional system message, conversation roles must alternate user/assistant", "alternate"),
        ("Developer instruction is not enabled for models/gemma-3-27b-it", "system"),
        ("Only user and assistant roles are supported!", "system"),
        ("Please use a valid role: user, model.", "system"),
        ("messages.0.role: Input should be 'user' or 'assistant'", "system"),
        ("'system' is not one of ['user', 'assistant', 'tool'] - 'messages.0.role'", "system"),
        ("First message must be from user", "system"),
        ("Unexpected role 'user' after role 'tool'", "user after tool"),
        ("Expected role to be one of: ['assistant', 'tool'] but got user", "user after tool"),
        ("a tool message cannot be succeeded by a user message", "user after tool"),
        ("Invalid message sequence: role 'user' is not allowed after 'tool'", "user after tool"),
        ("Image dimensions are below the minimum of 8 pixels", "small"),
        ("Image must have at least 512 total pixels", "small"),
        ("Too many images in request. The maximum is 10.", "many"),
        ("This model supports at most 5 images", "many"),
        ("image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes", "large"),
    ],
)
def test_kinds_of_refusals(words: str, kind: str) -> None:
    assert kind_of(400, words) == kind


def test_a_picture_of_the_question_that_is_shown_again_stays() -> None:
    store = Media()
    own = store.put(Image.new("RGB", (9, 9)))
    messages = (said("user", own, "q"), said("assistant", "code"), said("user", own))
    assert Manners().after("picture", "cannot decode image", Request(messages), {}) is None
    assert isinstance(own, ImagePart)


def test_the_page_of_models_lists_every_way() -> None:
    page = (Path(__file__).parents[2] / "docs/models.md").read_text(encoding="utf-8")
    assert [name for name, way in MANNERS.items() if f"| {way.words} | {way.servers} |" not in page] == []


SIDES = st.integers(1, 20_000)


def opened(data: bytes) -> Image.Image:
    return Image.open(BytesIO(data))


@pytest.mark.parametrize("format_", ["PNG", "JPEG", "GIF", "WEBP"])
def test_bytes_that_fit_are_sent_as_they_are(format_: str) -> None:
    media = Media()
    part = media.put(Image.new("RGB", (5, 4)), format_)
    picture = encoded_picture(part, media)
    assert picture.data == media.stored[part.sha256]
    assert picture.mime == f"image/{format_.lower()}"
    assert picture.url == f"data:{picture.mime};base64,{base64.b64encode(picture.data).decode()}"


@pytest.mark.parametrize("format_", ["BMP", "TIFF"])
def test_formats_that_providers_refuse_become_png(format_: str) -> None:
    media = Media()
    picture = encoded_picture(media.put(Image.new("RGB", (5, 4), "red"), format_), media)
    assert (picture.mime, opened(picture.data).getpixel((0, 0))) == ("image/png", (255, 0, 0))


def test_a_turned_photo_is_sent_upright() -> None:
    media = Media()
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = encoded_picture(media.put(Image.new("RGB", (8, 4)), "JPEG", exif=exif), media)
    assert opened(picture.data).size == (4, 8)
    assert opened(picture.data).getexif().get(0x0112, 1) == 1


def test_of_an_animation_the_first_picture_is_sent() -> None:
    media = Media()
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    picture = encoded_picture(media.put(frames[0], "GIF", save_all=True, append_images=frames[1:]), media)
    assert (picture.mime, opened(picture.data).convert("RGB").getpixel((0, 0))) == ("image/png", (255, 0, 0))


@pytest.mark.parametrize("mode", ["P", "L", "LA", "RGBA", "I;16", "1", "CMYK"])
def test_every_mode_can_be_scaled(mode: str) -> None:
    media = Media()
    format_ = "TIFF" if mode == "CMYK" else "PNG"
    picture = encoded_picture(media.put(Image.new(mode, (9, 6)), format_), media, PictureRules(side=3))
    assert opened(picture.data).size == (3, 2)


def test_too_many_bytes_become_jpeg_and_then_smaller() -> None:
    media = Media()
    noise = Image.effect_noise((200, 200), 90).convert("RGB")
    part = media.put(noise)
    encoded = encoded_picture(part, media, PictureRules(data_bytes=39_000))
    assert (encoded.mime, opened(encoded.data).size) == ("image/jpeg", (200, 200))
    small = encoded_picture(part, media, PictureRules(data_bytes=5_000))
    assert len(small.data) <= 5_000
    assert max(opened(small.data).size) < 200


@given(SIDES, SIDES, st.integers(10, 4000), st.integers(1000, 10_000_000))
def test_a_fitting_size_fits_and_is_never_larger(width: int, height: int, side: int, pixels: int) -> None:
    new = fitting_size((width, height), PictureRules(side=side, pixels=pixels))
    assert max(new) <= side
    assert min(new) == 1 or new[0] * new[1] <= pixels
    assert new[0] <= width
    assert new[1] <= height
    if max(width, height) <= side and width * height <= pixels:
        assert new == (width, height)


def test_bytes_that_are_no_picture() -> None:
    media = Media()
    media.stored["b" * 64] = b"nonsense"
    with pytest.raises(DecodeError, match="bbbbbbbbbbbb cannot be read"):
        encoded_picture(ImagePart(sha256="b" * 64, width=1, height=1), media)
