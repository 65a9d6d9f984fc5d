from __future__ import annotations

from pathlib import Path

import pytest

from saccade.errors import ModelLostError, SettingsError
from saccade.models.base import Request
from saccade.models.exchanges import KeptModel
from saccade.models.scripted import ScriptedModel
from saccade.record.content import Message, TextPart
from saccade.record.trajectory import Sampling


class NoMedia:
    def get_bytes(self, sha256: str) -> bytes:
        raise AssertionError("a scripted model reads no pictures")


async def test_a_kept_reply_answers_its_own_request_only(tmp_path: Path) -> None:
    model = KeptModel(ScriptedModel(["one", "two", "three", ModelLostError("down"), "five"]), tmp_path)

    async def ask(text: str, seed: int = 0) -> str:
        message = Message(role="user", parts=(TextPart(text=text),))
        request = Request((message,), sampling=Sampling(seed=seed))
        return (await model.complete(request, NoMedia())).text

    assert [await ask("a"), await ask("a"), await ask("a", 1), await ask("b")] == ["one", "one", "two", "three"]
    with pytest.raises(ModelLostError):
        await ask("c")
    assert await ask("c") == "five"
    for file in tmp_path.rglob("*.json"):
        file.write_text("{}")
    with pytest.raises(SettingsError, match="delete it"):
        await ask("a")
    await model.close()


async def test_a_kept_reply_is_heard_like_a_new_one(tmp_path: Path) -> None:
    request = Request((Message(role="user", parts=(TextPart(text="a"),)),))
    for model in (ScriptedModel(["well said"]), ScriptedModel([])):
        heard: list[str] = []
        reply = await KeptModel(model, tmp_path).complete(request, NoMedia(), on_text=heard.append)
        assert ("".join(heard), reply.text) == ("well said", "well said")
