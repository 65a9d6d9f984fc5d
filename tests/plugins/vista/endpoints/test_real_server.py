"""Endpoint tools against a real server over tiny weights: `saccade serve`'s application with a local checkpoint.

The model was never trained and writes noise, so what is tried is everything but its answers: client, pictures on the
wire, the parser of replies, and the second question after one that could not be read.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from saccade.tools.context import ProblemKind, ToolContext, ToolResult
from saccade.tools.registry import make_tool
from saccade.tools.setup import VARIABLE

TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "table": ("chartmoe", {"task": "to_table"}),
    "statements": ("diagram_formalizer", {"task": "image_cdl"}),
    "answer": ("multimath", {"question": "Find x."}),
    "text": ("chartvlm", {}),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_noise_of_a_served_model_is_read_asked_for_again_and_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.plugins.serve.agents import serving

    from saccade.plugins.worlds.random_checkpoint import save_tiny
    from saccade.tokens.local_model import LocalModel

    save_tiny(tmp_path / "tiny")
    model = LocalModel(str(tmp_path / "tiny"))
    asked: list[int] = []
    complete = model.complete

    async def counted(request: Any, media: Any, **more: Any) -> Any:
        asked.append(sum(len(message.media) for message in request.messages))
        return await complete(request, media, **more)

    monkeypatch.setattr(model, "complete", counted)
    async with serving({"tiny": model}, token=None, base={"dialect": "direct:short"}) as url:
        tables = "".join(
            f"[{tool}]\nmodel = 'compatible:tiny@{url}'\nmax_tokens = 24\nseconds = 800\n" for tool, _ in TASKS.values()
        )
        (tmp_path / "setup.toml").write_text(tables)
        monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
        context = ToolContext({"chart": Image.new("RGB", (120, 90), "white")})
        found: dict[str, ToolResult] = {}
        for form, (tool, arguments) in TASKS.items():
            before = len(asked)
            found[form] = await asyncio.to_thread(make_tool(tool).call, arguments, context)
            assert len(asked) - before == (1 if found[form].ok and form == "text" else 2), (form, found[form])
    assert set(asked) == {1}, "each question carries its picture"
    for form, result in found.items():
        if not result.ok:
            assert result.problem is not None
            assert result.problem.kind is ProblemKind.TOOL_FAILURE, (form, result)
    assert not found["table"].ok, "noise is no table"
    assert not found["statements"].ok
