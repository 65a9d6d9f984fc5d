from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file
from tests.training.rl.engines.served import running
from tests.training.rl.policies import policy
from tests.training.rl.train.support import metrics, rl_settings, toy

from saccade.errors import ModelLostError, ModelRefusedError, TrainingError
from saccade.media.store import MediaStore
from saccade.models.local_text import LocalSettings
from saccade.models.local_weights import load_checkpoint
from saccade.training.rl.run import train

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),  # by peft
]


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
@pytest.mark.parametrize("language", ["full", "lora"])
def test_a_server_samples_with_the_weights_of_every_step(
    kind: str, language: str, tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    with running(kind, policy(tiny), MediaStore(tmp_path / "served")) as server:
        # The gate ends the run where a step was sampled with the weights of another.
        more = {"engine": server.url, "max_logprob_diff": 1e-4, "model": {"source": str(tiny), "language": language}}
        model = train(rl_settings(tiny, tasks, recipe={"steps": 3}, **more), tmp_path / "run")
        assert server.loaded == [str(tmp_path / "run" / "served")] * 4
        lines = metrics(tmp_path / "run")
    assert [line["updates"] for line in lines] == [1, 1, 1]
    assert max(line["logprob_gap"] for line in lines) < 1e-4
    sent, kept = (load_file(folder / "model.safetensors") for folder in (tmp_path / "run" / "served", model))
    assert all(kept[name].equal(sent[name]) for name in kept)
    assert load_checkpoint(str(tmp_path / "run" / "served"), LocalSettings(device="cpu")).context_tokens == 2048


def test_a_run_whose_servers_are_not_all_there_leaves_nothing_behind(tiny: Path, tasks: Path, tmp_path: Path) -> None:
    gone = "http://127.0.0.1:9"
    with running("vllm", policy(tiny), MediaStore(tmp_path / "served")) as server:
        for engine in (gone, f"{server.url},{gone}"):
            with pytest.raises(ModelLostError, match=f"{gone} cannot be reached"):
                train(rl_settings(tiny, tasks, engine=engine, retry={"tries": 1}), tmp_path / "run")
            assert not (tmp_path / "run").exists()


def test_weights_that_do_not_arrive_end_the_run(
    tiny: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy(monkeypatch, talkative=True)
    with running("vllm", policy(tiny), MediaStore(tmp_path / "served")) as server:
        monkeypatch.setattr(type(server), "load", lambda self, folder: None)
        settings = rl_settings(tiny, tasks, engine=server.url, max_logprob_diff=1e-3)
        with pytest.raises(TrainingError, match="between sampling and training"):
            train(settings, tmp_path / "run")
        server.raw = True
        with pytest.raises(ModelRefusedError, match="processed_logprobs"):
            train(settings, tmp_path / "other")
