"""A model divided among two processes (gloo) learns what a whole one does, and each reads the other's checkpoints."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.training.divided import SCENARIOS

from saccade.plugins.worlds.random_checkpoint import save_tiny
from saccade.training.memory import state_bytes
from saccade.training.memory_passes import make_skeleton
from saccade.training.settings import ModelSettings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    save_tiny(folder, "qwen2_5_vl")
    return folder


def play(checkpoint: Path, out: Path, processes: int, *names: str) -> None:
    command = [sys.executable, "-m", "tests.training.divided", str(checkpoint), str(out), str(processes), *names]
    subprocess.run(command, cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def played(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The folders of all scenarios in one process and in two."""
    folders = {}
    for count in (1, 2):
        folders[count] = tmp_path_factory.mktemp(f"by-{count}")
        play(tiny, folders[count], count, *SCENARIOS)
    return folders


def tensors(folder: Path, kind: str, step: int = 2) -> dict[str, torch.Tensor]:
    files = sorted((folder / "checkpoints" / f"step-{step:08d}").glob(f"{kind}*.safetensors"))
    return {name: value for file in files for name, value in load_file(file).items()}


def said(folder: Path, step: int = 2) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"said-{step}.json").read_text())
    return found


def apart(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], before: dict[str, torch.Tensor]) -> float:
    """How far two results are from each other, as a fraction of how far training went."""
    assert ours.keys() == theirs.keys()
    between = sum(float((ours[name] - theirs[name]).abs().sum()) for name in ours)
    return between / sum(float((theirs[name] - before[name]).abs().sum()) for name in ours if name in before)


@pytest.mark.parametrize("name", SCENARIOS)
def test_two_processes_learn_what_one_does(played: dict[int, Path], tiny: Path, name: str) -> None:
    one, two = played[1] / name, played[2] / name
    loose = name == "bfloat16"  # added up in another order, and gathered weights are rounded before they are used
    assert said(two)["norms"] == pytest.approx(said(one)["norms"], rel=2e-2 if loose else 1e-4)
    assert said(two)["norms"][0] > 0.5, "the gradient was cut"
    first, ours, theirs = load_file(tiny / "model.safetensors"), load_file(two / "model/model.safetensors"), None
    theirs = load_file(one / "model/model.safetensors")
    # Adam makes something of the sign of a gradient that is 0 but for rounding.
    assert apart(ours, theirs, first) < (0.3 if loose else 0.01)
    assert said(two)["hidden"] == pytest.approx(said(one)["hidden"], abs=0.1 if loose else 1e-3)
    assert tensors(two, "optimiser").keys() == tensors(one, "optimiser").keys()
    files = list((two / "checkpoints/step-00000002").glob("weights*"))
    assert len(files) == 2, "each process writes some of the tensors"
    assert all(value.shape == tensors(one, "weights")[key].shape for key, value in tensors(two, "weights").items())


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # peft asks for it
@pytest.mark.parametrize("name", ["full", "lora", "muon"])
@pytest.mark.parametrize("count", [1, 2])
def test_the_plan_knows_what_a_process_keeps(played: dict[int, Path], tiny: Path, name: str, count: int) -> None:
    """In bytes; divided, rows of a weight are, so that shares differ by a row."""
    model, method = SCENARIOS[name]
    skeleton = make_skeleton(ModelSettings(source=str(tiny), shard=True, **model), low=False)
    planned = state_bytes(skeleton, count, shard=True, muon=method == "muon")
    measured = said(played[count] / name)["bytes"]
    for kind in ("weights", "gradients", "optimizer"):
        assert getattr(planned, kind) == pytest.approx(measured[kind], rel=0.0 if count == 1 else 0.03), kind


@pytest.mark.parametrize("by", [1, 2])
def test_a_checkpoint_is_read_by_any_number_of_processes(
    played: dict[int, Path], tiny: Path, tmp_path: Path, by: int
) -> None:
    """Two steps more from the checkpoint of the other number are those from one's own."""
    for start in (1, 2):
        shutil.copytree(played[start] / "full", tmp_path / str(start) / "full")
        play(tiny, tmp_path / str(start), by if start != by else start, "full")
    ours, theirs = (tensors(tmp_path / str(start) / "full", "weights", 4) for start in (1, 2))
    assert apart(ours, theirs, tensors(played[1] / "full", "weights")) < 0.02


def test_two_processes_resume_exactly(played: dict[int, Path], tiny: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(played[2] / "full", tmp_path / name / "full")
        play(tiny, tmp_path / name, 2, "full")
    for kind in ("weights", "optimiser"):
        ours, theirs = (tensors(tmp_path / name / "full", kind, 4) for name in ("a", "b"))
        assert all(torch.equal(ours[key], value) for key, value in theirs.items())
