"""inspect_ai's own check of sandboxes on ours. What needs a shell or other users fails by design, and each is named."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

pytest.importorskip("inspect_ai")
from inspect_ai import Task as InspectTask
from inspect_ai import eval as inspect_eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import python
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from saccade.plugins.integrations.inspect.plugin import SaccadeSandboxEnvironment

pytestmark = [
    pytest.mark.faces,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(sys.platform != "linux", reason="the local sandbox is for Linux"),
    pytest.mark.filterwarnings("ignore"),
]
NO_SHELL = frozenset(
    f"test_exec_{name}"
    for name in (
        *("output", "stderr", "output_utf", "stderr_utf", "returncode", "env_vars", "input_binary"),
        *("timeout_not_raised_on_fast_signal_death", "timeout_kills_process", "timeout_kills_child_processes"),
    )
)
"""They give `sh -c` a pipe, a list or a variable."""
NO_USERS = frozenset({"test_exec_as_user"})
NOT_THERE = frozenset({"test_cwd_custom", "test_exec_permission_error"})
"""They name `/usr/bin/env` and `/etc/passwd`, and this sandbox shows the interpreter alone."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def started() -> AsyncIterator[SaccadeSandboxEnvironment]:
    made = await SaccadeSandboxEnvironment.sample_init("check", None, {})
    environment = made["default"].as_type(SaccadeSandboxEnvironment)
    yield environment
    await SaccadeSandboxEnvironment.sample_cleanup("check", None, made, False)


@pytest.fixture
def sandbox_env(request: pytest.FixtureRequest, started: SaccadeSandboxEnvironment) -> SaccadeSandboxEnvironment:
    name = getattr(request.node, "originalname", request.node.name)
    for names, reason in ((NO_SHELL, "no shell"), (NO_USERS, "one user"), (NOT_THERE, "no such file")):
        if name in names:
            request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    return started


async def test_programs_and_what_is_refused(
    sandbox_env: SaccadeSandboxEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_OF_THE_HOST", "1")
    login = ["bash", "--login", "-c", "python3 -"]
    code = "import os, sys\nprint(sorted(n for n in os.environ if 'SECRET' in n), sys.argv)\nopen('x', 'w').write('1')"
    done = await sandbox_env.exec(login, input=code)
    assert (done.returncode, done.stdout) == (0, "[] ['-']\n")
    failed = await sandbox_env.exec(["python3", "-c", "open('y', 'w').write('2')\nimport sys\nsys.exit(3)"])
    assert failed.returncode == 3
    # What a program that failed has written stays, as with any other sandbox of inspect_ai.
    assert {"x", "y"} <= set((await sandbox_env.exec(["ls"])).stdout.split())
    raised = await sandbox_env.exec(["python3", "-c", "1 / 0"])
    assert raised.returncode == 1
    assert "ZeroDivisionError" in raised.stderr
    for words in (["curl", "x"], ["sh", "-c", "ls | wc"], ["sh", "-c", "echo $HOME"], ["sh", "script.sh"]):
        refused = await sandbox_env.exec(words)
        assert refused.returncode == 127
        assert "here" in refused.stderr or "not found" in refused.stderr
    escaped = await sandbox_env.exec(["python3", "-c", "import subprocess\nsubprocess.run(['ls'])"])
    assert escaped.returncode == 1
    assert "Error" in escaped.stderr


def test_the_python_tool_of_inspect_runs_in_it(tmp_path: Path) -> None:
    call = ModelOutput.for_tool_call("mockllm/model", "python", {"code": "print(6 * 7)"})
    end = ModelOutput.from_content("mockllm/model", "42")
    for output in (call, end):
        output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
    task = InspectTask(
        dataset=MemoryDataset([Sample(input="6 * 7?", files={"given.txt": "text"})]),
        solver=[use_tools(python()), generate()],
        sandbox="saccade",
    )
    model = get_model("mockllm/model", custom_outputs=[call, end])
    (log,) = inspect_eval(task, model=model, log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    assert log.samples is not None
    assert [message.text for message in log.samples[0].messages if message.role == "tool"] == ["42\n"]
