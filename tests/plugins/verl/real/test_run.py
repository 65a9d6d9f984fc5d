"""`saccade rl --on verl` with verl's own trainer on Ray: sharded training, vLLM replicas, pictures, sandboxes."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from PIL import Image
from tests.plugins.verl.real.begun import begun, command, until
from tests.training.rl.train.support import metrics

from saccade.episode.run_folder import MEDIA
from saccade.media.store import MediaStore
from saccade.record.codec import read_lines, write_lines
from saccade.record.content import ImagePart
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import Trajectory
from saccade.report.runs import open_training_run

pytestmark = [pytest.mark.verl, pytest.mark.timeout(1800)]
RECIPE = """
dialect = "tiny:look"
steps = {steps}

[rollout]
group_size = 4
sampling = {{ temperature = 1.3, max_tokens = 100 }}
limits = {{ turns = 3, context_tokens = 1536 }}

[reward]
preset = "pyvision-rl@1:paper"

[rounds]
tasks = 2
groups = {groups}
rounds = 2

[selection]
{selection}

[optimizer]
learning_rate = 1e-3
"""
RANKED = 'rule = "oversample-filter-rank"\ngroups = 2'
NOTHING = 'rule = "pass-rate"\nlowest = 0.45\nhighest = 0.46'


def recipe(folder: Path, steps: int = 2, groups: int = 2, selection: str = RANKED) -> Path:
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(steps=steps, groups=groups, selection=selection))
    return path


def placeholder_tasks(root: Path) -> Path:
    """Questions that spell the token of which a prompt has one for each feature of a picture."""
    store = MediaStore(root / MEDIA)
    tasks = []
    for number in range(4):
        part = store.put_image(Image.new("RGB", (84, 56 + 28 * number), ("red", "green", "blue", "gold")[number]))
        question = "Is <|image_pad|><|image_pad|><|video_pad|> red? Answer with Yes/No."
        tasks.append(
            Task(id=f"pad{number}", question=question, media=(NamedMedia(name="image", part=part),), answer="Yes")
        )
    write_lines(root / "tasks.jsonl", tasks)
    return root


def test_two_ranks_and_two_servers_train_on_pictures_and_on_text_that_spells_placeholders(
    program: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    out, log = tmp_path / "run", tmp_path / "log"
    sources = ["--tasks", f"{placeholder_tasks(tmp_path / 'pads')}=0.5", "--tasks", "visual-search=0.5"]
    more = ["--gpus", "2", "--set", "validation.every=2", "--set", "keep.every=1"]
    started.append(begun(command(program, recipe(tmp_path, groups=1), out, *sources, *more), log))
    assert started[0].wait(1500) == 0, log.read_text()
    steps = [line for line in metrics(out) if "rollouts" in line]
    assert [line["step"] for line in steps] == [1, 2]
    assert all(line["lost"] == 0 and line["rollouts"] % 8 == 0 for line in steps)
    gaps = [line["logprob_gap"] for line in steps]
    print(f"\ngaps of a log-probability, verl's FSDP2 and vLLM: {gaps} nats")
    assert max(gaps) < 0.1
    assert [line["step"] for line in metrics(out) if "validation/reward" in line] == [0, 2]
    kept = list(read_lines(out / "rollouts" / "trajectories.jsonl", Trajectory))
    assert len(kept) == sum(line["rollouts"] for line in steps)
    assert any("<|image_pad|>" in trajectory.task.question for trajectory in kept)
    assert any(_shown(trajectory) for trajectory in kept)
    assert open_training_run("run", out).steps == 2
    assert (out / "model" / "saccade.json").exists()


def _shown(trajectory: Trajectory) -> int:
    """Pictures in observations."""
    seen = (turn.observation for turn in trajectory.turns if turn.observation is not None)
    return sum(isinstance(part, ImagePart) for message in seen for part in message.parts)


def test_a_step_that_keeps_nothing_goes_on_and_a_killed_run_is_resumed(
    program: Path, tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    out, log = tmp_path / "run", tmp_path / "log"
    path = recipe(tmp_path, steps=3, selection=NOTHING)
    arguments = command(program, path, out, "--tasks", "touching-circles", "--gpus", "1", "--set", "keep.every=1")
    arguments += ["--set", "validation.every=0"]
    started.append(begun(arguments, log))
    latest = out / "checkpoints" / "latest_checkpointed_iteration.txt"
    until(lambda: latest.exists(), started[0], log)
    started[0].send_signal(signal.SIGKILL)
    started[0].wait(60)
    done = int(latest.read_text())
    until(lambda: not _verl_of(out), None, log)
    started.append(begun([*arguments, "--resume"], log))
    assert started[1].wait(1500) == 0, log.read_text()
    steps = [line for line in metrics(out) if "rollouts" in line]
    assert steps[-1]["step"] == 3
    assert {line["step"] for line in steps} >= set(range(done + 1, 4))
    # Both rounds were played, for neither gave a group that the rule keeps.
    assert all(line["rollouts"] == 16 and line["trained_rollouts"] == 0 and line["updates"] == 0 for line in steps)
    # The second start went on from the checkpoint; one that had begun anew would make step 1 again.
    again = (out / "verl" / "log-1.jsonl").read_text().splitlines()
    assert json.loads(again[0])["step"] == done + 1
    kept = list(read_lines(out / "rollouts" / "trajectories.jsonl", Trajectory))
    assert len({trajectory.id for trajectory in kept}) == len(kept)


def _verl_of(out: Path) -> list[int]:
    """Processes that were started to train in `out`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(out / "verl") in words:
            found.append(int(folder.name))
    return found
