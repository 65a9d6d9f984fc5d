"""What the launcher removes after the zygote has ended, so that nothing stays when the host was killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from typing import Any


def remove_leftovers(settings: dict[str, Any]) -> None:
    """Remove the folders and empty control groups that `settings` names; missing ones are fine."""
    for folder in settings["leftover_folders"]:
        shutil.rmtree(folder, ignore_errors=True)
    for group in settings["leftover_cgroups"]:
        remove_cgroup(group)


def remove_cgroup(path: str, tries: int = 50) -> None:
    """Remove a control group and the groups in it; a group whose processes are still dying is tried again."""
    for _ in range(tries):
        try:
            inner = [entry.path for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for group in [*inner, path]:
            with contextlib.suppress(OSError):
                os.rmdir(group)
        if not os.path.exists(path):
            return
        time.sleep(0.02)
