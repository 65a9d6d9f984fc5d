"""Steps of TRL's GRPO against the server, on its documented path for environments, with a tiny policy of noise."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv")
from PIL.Image import Image
from tests.plugins.integrations.openenv.support import served

from saccade.plugins.integrations.openenv.client import episodes

pytestmark = [
    pytest.mark.faces,
    pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux"),
    # TRL, torch and transformers warn about each other.
    pytest.mark.filterwarnings("ignore"),
]
NATIVE = ("--tasks", "nested-squares", "--dialect", "native")


def test_the_tools_of_an_episode_give_pictures_and_the_reward() -> None:
    with served(*NATIVE) as url:
        episode = episodes(url)()
        opening = episode.reset(task="nested-squares@1/train/3", prompt=[{"role": "user", "content": ""}])
        assert [type(part.get("image")).__mro__[1] for part in opening if part["type"] == "image"]
        seen = episode.run_python(code="print(6 * 7)\nimage_0.crop((0, 0, 30, 20)).show()")
        (picture,) = [part["image"] for part in seen if part["type"] == "image"]
        assert isinstance(picture, Image)
        assert any("42" in part.get("text", "") for part in seen)
        assert episode.get_reward() == 0.0
        refused = episode.run_python(code="")
        assert "invalid arguments" in refused[0]["text"]
        over = episode.answer(text="no number")
        assert over[-1]["text"] == "The episode is over."
        assert episode.get_reward() == 0.0
        assert episode.run_python(code="1") == [{"type": "text", "text": "The episode is over."}]
        episode.reset(seed=1)
        assert episode.run_python(code="'image_0' in globals()")


@pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed here: `make faces`")
def test_trl_takes_steps_on_it(tmp_path: Path) -> None:
    import trl
    from datasets import Dataset
    from transformers import AutoModelForImageTextToText, AutoProcessor
    from trl import GRPOConfig, GRPOTrainer

    from saccade.plugins.worlds.random_checkpoint import save_tiny

    save_tiny(tmp_path / "tiny", "qwen3_vl")
    processor = AutoProcessor.from_pretrained(tmp_path / "tiny")
    template = Path(trl.__file__).parent / "chat_templates" / "qwen3_vl.jinja"
    processor.chat_template = template.read_text()
    processor.tokenizer.chat_template = template.read_text()
    rows = [{"prompt": [{"role": "user", "content": ""}], "task": f"nested-squares@1/train/{n}"} for n in range(2)]
    config: Any = GRPOConfig(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=2,
        num_generations=2,
        max_steps=2,
        max_completion_length=12,
        max_tool_calling_iterations=2,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        logging_steps=1,
    )
    with served(*NATIVE) as url:
        trainer = GRPOTrainer(
            model=AutoModelForImageTextToText.from_pretrained(tmp_path / "tiny"),
            args=config,
            train_dataset=Dataset.from_list(rows),
            processing_class=processor,
            environment_factory=episodes(url),
        )
        trainer.train()
    assert trainer.state.global_step == 2
    assert "rewards/LookEpisodes/mean" in trainer.state.log_history[0]
