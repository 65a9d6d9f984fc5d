"""Native calls at a real vLLM server: it reads a call from what a model wrote, and shows the model its result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import transformers
from tests.training.rl.engines.vllm.real import RealServer, save_random
from tests.training.rl.engines.vllm.test_models import CALLS, evaluated
from tokenizers import AddedToken

from saccade.record.content import Code, ImagePart
from saccade.record.execution import Status
from saccade.record.trajectory import StopReason

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]
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
