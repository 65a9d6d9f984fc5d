from pathlib import Path

import pytest

from saccade.errors import ModelRefusedError, SettingsError
from saccade.models.base import Completion, Request
from saccade.models.scripted import ScriptedModel, scripted_from_file
from saccade.record.content import Message, TextPart
from saccade.record.trajectory import FinishReason, Sampling


class NoMedia:
    def get_bytes(self, sha256: str) -> bytes:
        raise AssertionError("no media were expected to be read")


def ask(text: str = "hello there", *, stop: tuple[str, ...] = (), max_tokens: int | None = None) -> Request:
    message = Message(role="user", parts=(TextPart(text=text),))
    return Request(messages=(message,), stop=stop, sampling=Sampling(max_tokens=max_tokens))


async def test_a_list_is_played_once_and_its_end_is_an_error() -> None:
    model = ScriptedModel(["one", "two"])
    assert [(await model.complete(ask(), NoMedia())).text for _ in range(2)] == ["one", "two"]
    with pytest.raises(ModelRefusedError, match="2 replies"):
        await model.complete(ask(), NoMedia())


async def test_a_function_sees_the_messages() -> None:
    model = ScriptedModel(lambda messages: messages[-1].text.upper())
    answer = await model.complete(ask("hi you"), NoMedia())
    assert (answer.text, answer.finish) == ("HI YOU", FinishReason.STOP)
    assert (answer.usage.prompt_tokens, answer.usage.sampled_tokens) == (3, 3)


async def test_a_stop_string_belongs_to_the_text() -> None:
    heard: list[str] = []
    model = ScriptedModel(["<code>x</code> and more"])
    answer = await model.complete(ask(stop=("###", "</code>")), NoMedia(), on_text=heard.append)
    assert (answer.text, answer.finish) == ("<code>x</code>", FinishReason.STOP_STRING)
    assert "".join(heard) == answer.text


@pytest.mark.parametrize(
    ("limit", "text", "finish"),
    [
        (3, "<code>", FinishReason.LENGTH),
        (4, "<code>x", FinishReason.LENGTH),
        (7, "<code>x</code", FinishReason.LENGTH),
        (8, "<code>x</code>", FinishReason.STOP_STRING),
    ],
)
async def test_the_token_limit_counts_before_the_stop(limit: int, text: str, finish: FinishReason) -> None:
    model = ScriptedModel(["<code>x</code> tail"])
    answer = await model.complete(ask(stop=("</code>",), max_tokens=limit), NoMedia())
    assert (answer.text, answer.finish, answer.usage.sampled_tokens) == (text, finish, limit)


async def test_a_text_that_just_fits_is_whole() -> None:
    answer = await ScriptedModel(["a b"]).complete(ask(max_tokens=3), NoMedia())
    assert (answer.text, answer.finish) == ("a b", FinishReason.STOP)


async def test_exceptions_are_raised_and_completions_given_as_they_are() -> None:
    stored = Completion("x", FinishReason.FILTERED, token_ids=(5,), model="m")
    model = ScriptedModel([ModelRefusedError("no"), stored])
    with pytest.raises(ModelRefusedError, match="no"):
        await model.complete(ask(), NoMedia())
    assert await model.complete(ask(), NoMedia()) == stored


async def test_a_file_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('["a", "b"]')
    model = scripted_from_file(path)
    assert (await model.complete(ask(), NoMedia())).text == "a"
    assert model.name == f"scripted:{path}"


@pytest.mark.parametrize("content", ["{}", "[1]", "nonsense", None])
def test_a_bad_file_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "script.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingsError, match=r"script\.json is no script"):
        scripted_from_file(path)
