"""Steps of TRL's GRPOTrainer: its advantages and losses against ours. `make parity` installs TRL and runs these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from saccade.training.rl.recipe import RlLossSettings
from saccade.training.rl.rollout import mean_baseline, standardised
from saccade.training.rl.step import LossInputs, policy_loss

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

WORDS = ["<pad>", "<eos>", *"abcdefgh"]
LENGTH = 6
AGGREGATES = {"grpo": "sequence-mean", "bnpo": "token-mean", "dr_grpo": "sequence-sum"}


def model_and_tokenizer(folder: Path) -> tuple[Any, Any]:
    """A language model of a few thousand weights that knows ten words; TRL reads its reference model from `folder`."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return LlamaForCausalLM.from_pretrained(folder), tokenizer


@pytest.mark.parametrize("loss_type", AGGREGATES)
@pytest.mark.parametrize("scale", ["group", "none"])
def test_a_step_of_grpo(loss_type: str, scale: str, tmp_path: Path) -> None:
    trl = pytest.importorskip("trl", reason="make parity installs it")
    from datasets import Dataset

    compared: list[float] = []
    settings = RlLossSettings.model_validate(
        {"aggregate": AGGREGATES[loss_type], "scale": LENGTH, "clip_high": 0.28, "kl_weight": 0.05}
    )

    given: list[float] = []

    def reward(completions: list[str], **columns: Any) -> list[float]:
        given[:] = [float(text.count("a")) + 0.1 * number**2 for number, text in enumerate(completions)]
        return given

    class Watched(trl.GRPOTrainer):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            made = super()._generate_and_score_completions(inputs)
            groups = np.repeat(np.arange(2), 4)
            # TRL adds 1e-4 to the standard deviation.
            scaled = standardised(np.array(given), groups, 1e-4)
            mine = scaled if scale == "group" else mean_baseline(np.array(given), groups)
            assert mine == pytest.approx(made["advantages"].numpy(), abs=1e-5)
            return made

        def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
            expected = super()._compute_loss(model, inputs)
            ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
            attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
            logprobs, *_ = self._get_per_token_logps_and_entropies(
                model, ids, attention, inputs["completion_ids"].size(1)
            )
            behaviour = inputs["old_per_token_logps"]
            advantages = inputs["advantages"][:, None].expand_as(logprobs)
            loss, _ = policy_loss(
                LossInputs(
                    logprobs, behaviour, advantages, inputs["completion_mask"].float(), inputs["ref_per_token_logps"]
                ),
                settings,
            )
            assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
            compared.append(float((logprobs - behaviour).abs().max()))
            return expected

    model, tokenizer = model_and_tokenizer(tmp_path / "model")
    trainer = Watched(
        model=model,
        reward_funcs=reward,
        processing_class=tokenizer,
        train_dataset=Dataset.from_dict({"prompt": ["a b c", "d e f", "g h", "b d"]}),
        args=trl.GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=8,
            num_generations=4,
            num_iterations=3,
            max_steps=3,
            learning_rate=0.05,
            max_completion_length=LENGTH,
            loss_type=loss_type,
            scale_rewards=scale,
            epsilon=0.2,
            epsilon_high=0.28,
            delta=3.0,
            beta=0.05,
            use_bias_correction_kl=False,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        ),
    )
    trainer.train()
    assert len(compared) == 3
    assert compared[0] < 1e-5
    assert max(compared) > 0.05
