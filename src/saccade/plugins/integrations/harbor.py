"""Tasks as folders of Harbor's format, for any agent that it runs: files and a question in, an answer in a file out.

    NAME/task.toml  instruction.md  environment/  solution/  tests/

The pictures are in the agent's container, and nothing else of the task does. The gold answer is in `solution/`, which
Harbor gives to its oracle only, and in `tests/`, which becomes a container of its own (mode `separate`) that gets the
answer's file and grades it with the task's own grader. Containers are described and not built here.

Source: the models of harbor 0.26 (schema version 1.4), https://harborframework.com/docs/tasks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from shutil import copyfile
from typing import Final

from saccade.core.registry import DISTRIBUTION
from saccade.core.settings import Settings, to_toml
from saccade.dialects.question import question_text
from saccade.errors import DataError
from saccade.grading.registry import grade_of, scored_by_rule
from saccade.media.decode import suffix_of
from saccade.media.store import MediaStore
from saccade.record.codec import dumps
from saccade.record.task import Task

SCHEMA: Final = "1.4"
ORGANISATION: Final = "saccade"
IMAGE: Final = "python:3.12-slim"
WORKSPACE: Final = "/workspace"
ANSWER: Final = f"{WORKSPACE}/answer.txt"
PACKAGES: Final = ("numpy", "pillow", "matplotlib", "opencv-python-headless")
"""Packages that an agent's code finds installed, as in Saccade's own sandbox."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9._-]+")
_LONGEST: Final = 80
_VERIFIER_SECONDS: Final = 300.0
_AGENT_SECONDS: Final = 1800.0


def write_harbor_task(task: Task, store: MediaStore, root: Path, requirement: str = DISTRIBUTION) -> Path:
    """Write the folder of a task below `root`; gives it.

    Args:
        task: with a gold answer.
        store: has the task's media.
        root: is made if missing.
        requirement: what `pip install` gets in the container that grades.

    Raises:
        DataError: the task has no gold answer that its own grader calls right, or its folder is there already.
        MissingMediaError: the store lacks a picture.
    """
    if task.answer is None:
        raise DataError(f"{task.id} has no gold answer, so nothing could be graded")
    score = scored_by_rule(task.answer, task)
    if score.value is None or score.value < 1:
        why = grade_of(score.detail).reason
        raise DataError(f"{task.id}: its own grader does not call the gold answer right: {why}")
    folder = root / harbor_name(task.id)
    if folder.exists():
        raise DataError(f"{folder} is there already; name another folder")
    names = _media(task, store, folder / "environment" / "media")
    for name, text in _files(task, names, requirement).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if path.suffix == ".sh":
            path.chmod(0o755)
    return folder


class HarborSettings(Settings):
    """Settings of tasks in Harbor's format."""

    requirement: str = DISTRIBUTION
    """Argument of `pip install` in the container that grades: a name, a version, an address."""


class _HarborForm:
    """`saccade tasks write --to harbor`."""

    settings = HarborSettings

    def write(self, task: Task, store: MediaStore, root: Path, settings: HarborSettings) -> Path:
        return write_harbor_task(task, store, root, settings.requirement)


FORM: Final = _HarborForm()


def harbor_name(task: str) -> str:
    """Write the id of a task in the letters that Harbor allows; a digest ends one that had others, or is long."""
    plain = _NOT_IN_NAMES.sub("-", task).strip("-._")
    if plain == task and len(plain) <= _LONGEST and ".." not in plain:
        return plain
    return f"{plain.replace('..', '.')[:_LONGEST].rstrip('-._') or 'task'}-{sha256(task.encode()).hexdigest()[:8]}"


def _media(task: Task, store: MediaStore, folder: Path) -> list[str]:
    """Copy the task's media, named by their kind and number, for their own names may tell much; those names."""
    folder.mkdir(parents=True)
    (folder / ".gitkeep").touch()
    names = []
    for number, item in enumerate(task.media):
        names.append(f"{item.part.kind}_{number}{suffix_of(item.part.mime)}")
        store.get_bytes(item.part.sha256)  # raises for what is not there
        copyfile(store.path(item.part.sha256), folder / names[-1])
    return names


def _files(task: Task, names: list[str], requirement: str) -> Mapping[str, str]:
    return {
        "task.toml": to_toml(_settings(task)),
        "instruction.md": _instruction(task, names),
        "environment/Dockerfile": f"FROM {IMAGE}\nRUN pip install --no-cache-dir {' '.join(PACKAGES)}\n"
        f"WORKDIR {WORKSPACE}\nCOPY media/ {WORKSPACE}/media/\n",
        "solution/answer.txt": task.answer or "",
        "solution/solve.sh": f"#!/bin/sh\nset -eu\ncp /solution/answer.txt {ANSWER}\n",
        "tests/Dockerfile": f"FROM {IMAGE}\nRUN pip install --no-cache-dir '{requirement}'\nCOPY . /tests/\n",
        "tests/task.json": dumps(task) + "\n",
        "tests/test.sh": "#!/bin/sh\nset -eu\nmkdir -p /logs/verifier\n"
        f"python -m saccade.plugins.integrations.harbor_verify /tests/task.json {ANSWER} /logs/verifier/reward.txt\n",
    }


def _settings(task: Task) -> dict[str, object]:
    about = {"source": task.source, "split": task.split, "grader": task.grader or task.answer_type.value}
    return {
        "schema_version": SCHEMA,
        "artifacts": [ANSWER],
        "task": {"name": f"{ORGANISATION}/{harbor_name(task.id)}", "keywords": list(task.tags)},
        "metadata": {"id": task.id, **{name: value for name, value in about.items() if value}},
        "agent": {"timeout_sec": _AGENT_SECONDS},
        "verifier": {"environment_mode": "separate", "timeout_sec": _VERIFIER_SECONDS},
    }


def _instruction(task: Task, names: list[str]) -> str:
    listed = [f"- `{WORKSPACE}/media/{name}`" for name in names]
    these = "this file" if len(names) == 1 else "these files, in this order"
    files = [f"The question is about {these}:", "", *listed, ""]
    return "\n".join(
        [
            question_text(task),
            "",
            *(files if names else []),
            f"Look closely: Python with Pillow, OpenCV and matplotlib is there. Write only the answer into `{ANSWER}`.",
            "",
        ]
    )
