"""`saccade rl` with a tiny checkpoint that writes noise."""

import json
from pathlib import Path

import pytest

from saccade.cli.main import main
from saccade.models.tiny import save_tiny


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "qwen2_5_vl"
    save_tiny(folder, "qwen2_5_vl")
    return folder


def command(out: Path, *more: str) -> list[str]:
    sets = ["dialect=direct:short", "rollout.group_size=2", "rollout.sampling.max_tokens=4", "rounds.tasks=2"]
    sets += ["steps=1"]
    sets += ["reward.preset=pyvision-rl", "loss.kl_weight=0", "validation.tasks=1", "keep.tensorboard=false"]
    options = [part for item in sets for part in ("--set", item)]
    return ["rl", "vista-r1", "--profile", "tiny", "--out", str(out), *options, *more]


def test_a_recipe_on_a_world(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    given = ("--model", str(tiny), "--tasks", "pixel-colour")
    assert main(command(out, *given)) == 0
    said = capsys.readouterr().err
    assert "step 1/1" in said
    assert f"trained model: {out / 'model'}" in said.replace("\n", "")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 1]
    assert lines[1]["rollouts"] == 4
    assert main(command(out, *given)) == 2
    assert "--resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "--model"),
        (("--model", "x"), "--tasks"),
        (("--model", "x", "--tasks", "x", "--engine", "host:8000"), "http://host:port"),
        (("--model", "x", "--tasks", "x", "--set", "stepps=3"), "steps"),
        (("--model", "x", "--tasks", "x", "--set", "generation.decoding_batch=3"), "decoding_batches"),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], said: str
) -> None:
    assert main(command(tmp_path / "run", *more)) == 2
    assert said in capsys.readouterr().err
