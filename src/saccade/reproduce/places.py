"""Where the parts of a reproduction lie, in the folder of its claim.

settings.toml  plan.json  start/  tasks/SETS/{train,held-out}/  probe/  arms/ARM/SEED/  exams/ARM/SEED/
report.md  result.json  figure.png  figure.svg
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from saccade.reproduce.settings import Arm, Reproduction
from saccade.reproduce.tasks import Part

START = "start"


@dataclass(frozen=True, slots=True)
class Places:
    """The parts under `root`."""

    root: Path
    settings: Reproduction

    @property
    def start(self) -> Path:
        """Demonstrations and training of the start."""
        return self.root / START

    def tasks(self, arm: Arm, part: Part) -> Path:
        """The tasks of an arm."""
        return self.root / "tasks" / "+".join(self.settings.sets_of(arm)) / part

    def arm(self, arm: Arm, seed: int) -> Path:
        """The run of an arm."""
        return self.root / "arms" / arm.name / str(seed)

    def exam(self, arm: Arm, seed: int) -> Path:
        """The examination of an arm."""
        return self.root / "exams" / arm.name / str(seed)

    def start_exam(self, arm: Arm) -> Path:
        """The examination of the start by the tasks of an arm, in its dialect."""
        spoken = arm.dialect.replace(":", "-").replace("@", "-")
        return self.root / "exams" / START / f"{'+'.join(self.settings.sets_of(arm))}-{spoken}"
