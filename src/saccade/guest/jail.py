"""What a session process does to itself before it touches anything of a guest, step by step.

The steps are tried once in a throw-away process when the zygote starts; a step that cannot be had there is left out of
every session and reported with the reason. A step that was had there and fails later makes the session fail.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import landlock, privileges, seccomp


@dataclass(frozen=True)
class JailPlan:
    """How sessions are confined; made once by the zygote."""

    users: str
    """`range`: each session gets a user id of its own; `namespace`: a user namespace of its own; `none`."""
    limits: dict[str, Any]
    read_paths: tuple[str, ...]
    """Folders that may be read."""
    filter: bytes
    """The seccomp program."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Layer -> why it cannot be had on this machine."""

    @property
    def may_be_seen(self) -> bool:
        """Whether processes of the same user may look at a session, which the zygote has to, and has no other right to.

        Other sessions of that user cannot: Landlock keeps them from everything that is not of their own family.
        """
        return self.users == "none" and "landlock" not in self.left_out


def steps(plan: JailPlan, uid: int, family: str) -> list[tuple[str, Callable[[], object]]]:
    """(layer, what to do) in the order in which it must be done; `family` is the folder of the session's workspaces."""
    users: dict[str, Callable[[], object]] = {
        "range": lambda: privileges.become_user(uid, uid),
        "namespace": privileges.own_user_namespace,
    }
    made = [
        ("session_user", users.get(plan.users, _no_user)),
        ("rlimits", lambda: privileges.set_limits(plan.limits)),
        ("capabilities", privileges.drop_capabilities),
        ("no_new_privs", privileges.no_new_privs),
        ("landlock", lambda: landlock.restrict(plan.read_paths, [family], confine_files=True)),
        ("seccomp", lambda: seccomp.install(plan.filter)),
    ]
    return [(layer, step) for layer, step in made if layer not in plan.left_out]


def enter(plan: JailPlan, uid: int, family: str) -> None:
    """Confine this process for good. Raises OSError if a step fails."""
    if not plan.may_be_seen:
        privileges.set_dumpable(0)
    for _layer, step in steps(plan, uid, family):
        step()


def rehearse(plan: JailPlan, uid: int, family: str, fork: Callable[[], int]) -> dict[str, str]:
    """Try every step in a child: layer -> "" if it holds, or the reason why it cannot be had."""
    read_end, write_end = os.pipe()
    pid = fork()
    if pid == 0:
        outcomes = {}
        for layer, step in steps(plan, uid, family):
            try:
                step()
                outcomes[layer] = ""
            except Exception as error:
                outcomes[layer] = f"{type(error).__name__}: {error}"
        os.write(write_end, json.dumps(outcomes).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        body = pipe.read()
    os.waitpid(pid, 0)
    outcomes = json.loads(body) if body else {}
    return {layer: outcomes.get(layer, "the rehearsal died before it") for layer, _step in steps(plan, uid, family)}


def _no_user() -> None:
    raise OSError("this process may not hand out user ids nor make user namespaces")
