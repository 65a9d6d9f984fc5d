"""The chat-completions client against a server that nobody here wrote: `transformers serve` with a tiny checkpoint."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from PIL import Image
from tests.models.helpers import Media, Waits, ask, endpoint, said

from saccade.errors import ModelLostError, ModelRefusedError
from saccade.models.base import Request, ToolSpec
from saccade.models.providers.openai import OpenAIModel
from saccade.record.trajectory import FinishReason, Sampling
from saccade.tokens.local_model import LocalModel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.models.taught import CALLS, SAYS, save_taught

MEDIA = Media()
TOOL = ToolSpec("python", "Runs code.", {"type": "object", "properties": {"code": {"type": "string"}}})
RED = MEDIA.put(Image.new("RGB", (112, 56), "red"))
PATIENCE = 600.0
"""Seconds until the server must answer."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("taught")
    save_taught(folder)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(folder, tmp_path_factory.mktemp("home")) as address:
        yield address


@contextmanager
def serving(folder: Path, home: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [str(Path(sys.executable).parent / "transformers"), "serve", str(folder), "--trust-remote-code"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    log = home / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=home)
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(server, address, log)
        yield f"{address}/v1"
    finally:
        server.terminate()
        server.wait(30)


def _wait(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    for _ in range(int(PATIENCE / 0.25)):
        assert server.poll() is None, log.read_text()
        try:
            if httpx.get(f"{address}/health", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.25)
    raise AssertionError(f"the server did not come up:\n{log.read_text()}")


@pytest.fixture
async def served(address: str, folder: Path) -> AsyncIterator[OpenAIModel]:
    model = OpenAIModel(endpoint(address, model=str(folder)), server="transformers")
    yield model
    await model.close()


@pytest.fixture
async def local(folder: Path) -> AsyncIterator[LocalModel]:
    model = LocalModel(str(folder))
    yield model
    await model.close()


@pytest.mark.parametrize("parts", [("Look.",), ("What is ", RED, "this?")], ids=["text", "picture"])
@pytest.mark.parametrize("listens", [False, True], ids=["whole", "streamed"])
async def test_it_says_what_the_checkpoint_says_in_process(
    served: OpenAIModel, local: LocalModel, parts: tuple[str, ...], listens: bool
) -> None:
    heard: list[str] = []
    request = ask(*parts)
    theirs = await served.complete(request, MEDIA, on_text=heard.append if listens else None)
    ours = await local.complete(request, MEDIA)
    assert ours.text == SAYS
    # Sending a thought apart, the server drops the blanks behind it; but not where it streams.
    assert theirs.text == (SAYS if listens else SAYS.replace("</think>\n", "</think>"))
    assert theirs.finish is ours.finish is FinishReason.STOP
    assert theirs.usage.prompt_tokens == ours.usage.prompt_tokens
    assert theirs.usage.sampled_tokens == ours.usage.sampled_tokens
    assert str(local).partition("'")[2][:-2] in theirs.model
    if listens:
        assert "".join(heard) == theirs.text
        assert len(heard) > 5


async def test_many_turns_and_roles(served: OpenAIModel, local: LocalModel) -> None:
    messages = (said("system", "S"), said("user", "U ", RED), said("assistant", SAYS), said("user", RED, "V", RED))
    request = Request(messages, sampling=Sampling(max_tokens=3))
    ours, theirs = [await model.complete(request, MEDIA) for model in (local, served)]
    assert ours.usage.prompt_tokens == theirs.usage.prompt_tokens


@pytest.mark.parametrize("stop", ["</code>", "crop(", "rö", "</think>"])
async def test_stop_strings(served: OpenAIModel, local: LocalModel, stop: str) -> None:
    heard: list[str] = []
    request = ask("Look.", stop=("no such", stop))
    theirs = await served.complete(request, MEDIA, on_text=heard.append)
    ours = await local.complete(request, MEDIA)
    said_upto = SAYS[: SAYS.index(stop) + len(stop)]
    assert (ours.text, ours.finish) == (said_upto, FinishReason.STOP_STRING)
    assert theirs.text == said_upto == "".join(heard)
    assert theirs.finish is FinishReason.STOP_STRING


@pytest.mark.parametrize("listens", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("tokens", [2, 30])
async def test_the_token_limit(served: OpenAIModel, local: LocalModel, listens: bool, tokens: int) -> None:
    request = ask("Look.", sampling=Sampling(max_tokens=tokens), stop=("never",) if listens else ())
    ours, theirs = [await model.complete(request, MEDIA) for model in (local, served)]
    assert ours.finish is theirs.finish is FinishReason.LENGTH
    assert ours.usage.sampled_tokens == theirs.usage.sampled_tokens == tokens
    assert SAYS.startswith(ours.text)


async def test_its_failures_are_outages_and_refusals(address: str, folder: Path) -> None:
    waits = Waits()
    name = str(folder)
    model = OpenAIModel(endpoint(address, waits, model=name), server="compatible")
    # A 500 of the server's own: it looks for a vocabulary in the processor of a model that takes pictures.
    for listener in (None, lambda piece: None):
        with pytest.raises(ModelLostError):
            await model.complete(ask("Look.", stop=("</code>",)), MEDIA, on_text=listener)
    assert len(waits) > 1
    await model.close()
    strange = OpenAIModel(endpoint(address, model=name), server="vllm")
    with pytest.raises(ModelRefusedError, match=r"422.*return_token_ids"):
        await strange.complete(ask("Look."), MEDIA)
    await strange.close()


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address of a server whose checkpoint calls a function, and its name."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("caller")
    save_taught(folder, CALLS)
    with serving(folder, tmp_path_factory.mktemp("caller-home")) as address:
        yield address, str(folder)


@pytest.mark.parametrize("listens", [False, True], ids=["whole", "streamed"])
async def test_a_call_that_is_cut_off_is_no_outage(caller: tuple[str, str], listens: bool) -> None:
    address, name = caller
    model = OpenAIModel(endpoint(address, model=name), server="transformers")
    request = ask("Look.", tools=(TOOL,), sampling=Sampling(max_tokens=20))
    answer = await model.complete(request, MEDIA, on_text=(lambda piece: None) if listens else None)
    await model.close()
    assert (answer.tool_calls, answer.finish) == ((), FinishReason.LENGTH)
