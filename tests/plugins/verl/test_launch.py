"""What is looked at before Ray and verl are started: the machine, and the checkpoint that a run continues from."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.plugins.verl.support import cluster, verl_settings
from tests.training.rl.engines.judges import gone, started, vllm

from saccade.cli.main import main
from saccade.core.settings import save_settings
from saccade.errors import SettingsError, TrainingError, UnavailableError
from saccade.plugins.worlds.tiny import tiny_weights
from saccade.training.rl.settings import OwnTrainer, RlSettings

pytest.importorskip("torch")
launch = pytest.importorskip("saccade.plugins.verl.launch")
train = pytest.importorskip("saccade.training.rl.run").train
free_port = pytest.importorskip("saccade.training.rl.engines.vllm_process").free_port


@pytest.fixture(autouse=True)
def _as_if_verl_were_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_need_verl", lambda: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def test_a_machine_with_fewer_gpus_is_refused_before_ray_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for there, words in ((0, "has 0 GPUs. Say --gpus 1,.*trainer.device=cpu"), (2, "has 2 GPUs. Say --gpus 2")):
        monkeypatch.setattr("torch.cuda.device_count", lambda there=there: there)
        with pytest.raises(SettingsError, match=rf"trainer\.gpus is 8, and this machine {words}"):
            launch.train_on_verl(verl_settings(trainer={"gpus": 8}), tmp_path / "run")
    launch._need_cluster(verl_settings(trainer={"gpus": 8, "device": "cpu"}))
    with cluster(monkeypatch):
        launch._need_cluster(verl_settings(trainer={"gpus": 8}))
    assert not (tmp_path / "run").exists()


def test_a_cluster_that_does_not_answer_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(monkeypatch):
        launch._need_cluster(verl_settings())
    with pytest.raises(UnavailableError, match=r"no Ray cluster answers at 127\.0\.0\.1:.*RAY_ADDRESS"):
        launch.train_on_verl(verl_settings(), tmp_path / "run")  # nobody listens there any more
    assert not (tmp_path / "run").exists()
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    launch._need_cluster(verl_settings(trainer={"nodes": 2}))


def test_a_judge_is_started_beside_the_ray_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 6)
    judge = f"vllm:org/judge@http://localhost:{free_port()}/v1"
    recipe = {"reward": {"preset": "pyvision-rl@1:paper", "answer_judge": judge}}
    two = {"gpus": 2, "program": str(vllm(tmp_path))}
    settings = verl_settings(recipe, judge=two, trainer={"gpus": 4})
    launch._need_cluster(settings)
    with pytest.raises(SettingsError, match=r"judge\.gpus=2 and 5 that train or serve need 7 GPUs"):
        launch._need_cluster(verl_settings(recipe, judge=two, trainer={"gpus": 5}))
    with cluster(monkeypatch), pytest.raises(SettingsError, match=r"keeps GPUs of this machine back.*RAY_ADDRESS"):
        launch._need_cluster(settings)

    @contextmanager
    def ray(log: Path, variables: Mapping[str, str], *options: str) -> Iterator[dict[str, str]]:
        assert variables["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"
        yield {}

    def watched(settings: RlSettings, out: Path, variables: Mapping[str, str]) -> None:
        ((process, gpus, arguments),) = started(tmp_path)
        assert (gpus, arguments[:2]) == ("4,5", ["serve", "org/judge"])
        assert "CUDA_VISIBLE_DEVICES" not in variables, "Ray says who sees which"
        assert not gone(process, 0)

    monkeypatch.setattr(launch, "local_ray", ray)
    monkeypatch.setattr(launch, "_watched", watched)
    monkeypatch.setattr(launch, "write_metrics", lambda out, updates: settings.recipe.steps)
    launch._train(settings, tmp_path)
    assert gone(started(tmp_path)[0][0])


def ended_run(out: Path, steps: int) -> RlSettings:
    """A run of two processes on the tiny checkpoint as verl leaves it after `steps` steps."""
    settings = verl_settings(model={"source": str(tiny_weights())}, trainer={"gpus": 2, "device": "cpu"})
    (out / "verl").mkdir()
    made = out / "checkpoints" / f"global_step_{steps}"
    (made / "actor" / "huggingface").mkdir(parents=True)
    names = [f"{part}_world_size_2_rank_{rank}.pt" for part in ("model", "optim", "extra_state") for rank in range(2)]
    for name in ("data.pt", *(f"actor/{name}" for name in names), "actor/huggingface/config.json"):
        (made / name).write_text("{}", encoding="utf-8")
    (out / "checkpoints" / "latest_checkpointed_iteration.txt").write_text(str(steps), encoding="utf-8")
    save_settings(settings, out / "settings.toml")
    return settings


def test_a_run_that_is_done_is_resumed_without_starting_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_train", lambda settings, out: pytest.fail("verl was started"))
    settings = ended_run(tmp_path, 3)
    model = launch.train_on_verl(settings, tmp_path, resume=True)
    assert {path.name for path in model.iterdir()} == {"config.json", "saccade.json"}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ("global_step_1", "lacks 8 of 8 files"),
        ("global_step_1/data.pt", "lacks 1 of 8 files, data.pt first"),
        ("global_step_1/actor/optim_world_size_2_rank_1.pt", "optim_world_size_2_rank_1.pt first"),
    ],
)
def test_a_checkpoint_that_is_not_complete_is_not_begun_from(
    lost: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """verl would begin anew, or with the first tasks, and say so in its log alone."""
    monkeypatch.setattr(launch, "_train", lambda settings, out: pytest.fail("verl was started"))
    settings, gone = ended_run(tmp_path, 1), tmp_path / "checkpoints" / lost
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    with pytest.raises(TrainingError, match=words):
        launch.train_on_verl(settings, tmp_path, resume=True)


def test_a_run_is_resumed_on_the_trainer_that_began_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both would find the same settings, none of their own checkpoints, and begin anew over what is there."""
    monkeypatch.setattr(launch, "_train", lambda settings, out: pytest.fail("verl was started"))
    settings = verl_settings(model={"source": str(tiny_weights())})
    own = settings.model_copy(update={"trainer": OwnTrainer()})
    save_settings(own, tmp_path / "settings.toml")
    with (
        cluster(monkeypatch),
        pytest.raises(SettingsError, match=r"was begun on Saccade's own trainer.*without --on verl"),
    ):
        launch.train_on_verl(settings, tmp_path, resume=True)
    save_settings(settings, tmp_path / "settings.toml")
    with pytest.raises(SettingsError, match=r"was begun on verl.*Add --on verl"):
        train(own, tmp_path, resume=True)


def test_a_run_is_resumed_with_the_tasks_that_it_was_begun_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    monkeypatch.setattr(launch, "_train", lambda settings, out: started.append(settings.recipe.steps))
    monkeypatch.setattr(launch, "_exported", lambda settings, out: out / "model")
    out, questions = tmp_path / "run", tmp_path / "questions"

    def resumed(steps: int) -> None:
        more = {"model": {"source": str(tiny_weights())}, "trainer": {"gpus": 2, "device": "cpu"}}
        settings = verl_settings({"steps": steps}, **more, tasks={"source": str(questions)}, validation={"every": 0})
        launch.train_on_verl(settings, out, resume=True)

    def questioned(count: int) -> None:
        assert main(["worlds", "sample", "touching-circles", "--n", str(count), "--out", str(questions)]) == 0

    questioned(3)
    resumed(2)
    resumed(4)
    shutil.rmtree(questions)
    questioned(4)
    with pytest.raises(TrainingError, match="begun with other tasks"):
        resumed(4)
    assert started == [2, 4]
