"""The benchmark of a server does its work and says so; no figure is judged here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.sandbox.providers import linux_only
from tests.serve.agents import serving

from saccade.bench import serving as measured
from saccade.bench.serving import ServeScale
from saccade.cli.main import main
from saccade.errors import SandboxError
from saccade.models.scripted import ScriptedModel
from saccade.sandbox.scripted import ScriptedSandbox


@linux_only
def test_every_figure_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "QUICK_SERVE", ServeScale(at_once=4, requests=8, memory_requests=16))
    file = tmp_path / "serve.json"
    assert main(["bench", "serve", "--quick", "--json", str(file)]) == 0
    bare, code, memory = json.loads(file.read_text())["figures"]
    assert 0 < bare["value"] <= bare["other"] == 80
    assert 0 < code["value"] <= code["other"] == 40
    assert memory["other"] > 0


async def test_a_refused_request_is_no_figure() -> None:
    model = ScriptedModel(lambda messages: "<answer>2</answer>", name="bench")
    async with serving({"bench": model}, sandbox=ScriptedSandbox([])) as url:
        with pytest.raises(SandboxError, match="refused"):  # no token is shown
            await measured._worker(url.removesuffix("/v1"), iter(range(1)))
