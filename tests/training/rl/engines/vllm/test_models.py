"""A real vLLM server as a model of `saccade ask` and `saccade eval`: saccade-tiny behind it does what it does here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import transformers
from PIL import Image, ImageDraw
from tests.training.rl.engines.vllm.real import RealServer, save_random
from tests.training.rl.engines.vllm.test_run import TINY
from tokenizers import AddedToken

from saccade.cli.main import main
from saccade.record.codec import read_lines
from saccade.record.content import Code, ImagePart
from saccade.record.execution import Status
from saccade.record.trajectory import StopReason, Trajectory

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]

CALLS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")


@pytest.fixture(scope="module")
def tiny(vllm_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    server = RealServer(vllm_program, TINY, tmp_path_factory.mktemp("logs") / "tiny.log", *CALLS)
    asyncio.run(server.start())
    yield server
    server.stop()


def named(server: RealServer) -> str:
    return f"vllm:{TINY}@{server.url}/v1"


def evaluated(model: str, out: Path, *more: str) -> list[Trajectory]:
    assert main(["eval", "touching-circles", "--n", "4", "--model", model, "--out", str(out), *more]) == 0
    return sorted(read_lines(out / "trajectories.jsonl", Trajectory), key=lambda trajectory: trajectory.id)


def test_an_evaluation_plays_the_episodes_that_it_plays_in_process(tiny: RealServer, tmp_path: Path) -> None:
    here = evaluated("tiny", tmp_path / "here")
    there = evaluated(named(tiny), tmp_path / "there", "--dialect", "tiny:look")
    for ours, theirs in zip(here, there, strict=True):
        assert [turn.text for turn in theirs.turns] == [turn.text for turn in ours.turns]
        assert theirs.answer == ours.answer
        # Chat templates put the same tokens before a turn, and the server gives the ids that it sampled.
        assert [turn.token_ids for turn in theirs.turns] == [turn.token_ids for turn in ours.turns]
        assert [turn.tokens.context for turn in theirs.turns] == [turn.tokens.context for turn in ours.turns]
    assert any(len(trajectory.turns) > 1 for trajectory in there)


def test_a_question_is_answered(tiny: RealServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "circles.png"
    image = Image.new("RGB", (400, 300), "white")
    ImageDraw.Draw(image).ellipse((40, 60, 140, 160), outline="red", width=4)
    ImageDraw.Draw(image).ellipse((240, 100, 340, 200), outline="blue", width=4)
    image.save(picture)
    question = [str(picture), "Are the two circles touching each other? Answer with Yes/No."]
    said = []
    for model in ("tiny", named(tiny)):
        assert main(["ask", *question, "--model", model, "--dialect", "tiny:look", "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0]["answer"] == said[1]["answer"]
    assert said[1]["calls"] == said[0]["calls"] >= 1


def test_native_calls_are_taken_by_a_server_that_has_a_parser_for_them(tiny: RealServer, tmp_path: Path) -> None:
    """The model was not trained to make one; its text is an answer, or ends at the limit."""
    more = ("--dialect", "native", "--set", "sampling.max_tokens=40", "--set", "limits.turns=2")
    for trajectory in evaluated(named(tiny), tmp_path / "run", *more):
        assert trajectory.stop not in (StopReason.MODEL_LOST, StopReason.MODEL_REFUSED), trajectory.stop_detail


def test_a_killed_evaluation_is_resumed_against_the_same_server(tiny: RealServer, tmp_path: Path) -> None:
    first = evaluated(named(tiny), tmp_path / "run", "--dialect", "tiny:look", "--n", "2")
    again = evaluated(named(tiny), tmp_path / "run", "--dialect", "tiny:look", "--n", "2")
    assert [t.id for t in again] == [t.id for t in first]


CODE = "plt.imshow(image_0.crop((0, 0, 32, 32)))\nplt.show()"

CALL = (
    '<tool_call>\n{"name": "python", "arguments": {"code": '
    '"plt.imshow(image_0.crop((0, 0, 32, 32)))\\nplt.show()"}}\n</tool_call>'
)

TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content or [] %}"
    "{% if part.type == 'text' %}{{ part.text }}{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}"
    "{% endfor %}{% endif %}{% for call in message.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n</tool_call>'
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def save_caller(folder: Path) -> None:
    """A checkpoint that makes one call whatever it is shown, and ends its turn.

    The call is one token of its vocabulary. Nothing in its layers reaches what is predicted, so the next token depends
    on the last one alone: a line break is followed by the call, and that by the end.
    """
    save_random(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([AddedToken(CALL, special=False, normalized=False)])
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    config.tie_word_embeddings = config.text_config.tie_word_embeddings = False
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder, config=config)
    last = tokenizer("<|im_start|>assistant\n")["input_ids"][-1]
    (call,) = tokenizer(CALL)["input_ids"]
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.zero_()
        shown = torch.nn.functional.normalize(model.get_input_embeddings().weight, dim=-1)
        head = model.get_output_embeddings().weight
        head.zero_()
        head[call], head[end] = 9.0 * shown[last], 9.0 * shown[call]
    model.save_pretrained(folder)


@pytest.fixture(scope="module")
def caller(vllm_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("caller") / "weights"
    save_caller(folder)
    server = RealServer(vllm_program, folder, folder.parent / "vllm.log", *CALLS)
    try:
        asyncio.run(server.start())
        yield f"vllm:{folder}@{server.url}/v1"
    finally:
        server.stop()


def test_a_call_runs_and_its_picture_is_shown(caller: str, tmp_path: Path) -> None:
    more = ("--dialect", "native", "--set", "limits.turns=3")
    for trajectory in evaluated(caller, tmp_path / "run", *more):
        assert trajectory.stop not in (StopReason.MODEL_LOST, StopReason.MODEL_REFUSED), trajectory.stop_detail
        first, second, *_ = trajectory.turns
        for turn in (first, second):
            assert isinstance(turn.action, Code)
            assert turn.action.code == CODE
            assert turn.execution is not None
            assert turn.execution.status is Status.OK
        assert first.observation is not None
        assert first.observation.role == "tool"
        assert sum(isinstance(part, ImagePart) for part in first.observation.parts) == 1
        # The server's template has put both the call and the picture before the second turn.
        assert second.tokens.context > first.tokens.context + 2
