"""Tools that ask a model behind an endpoint: against a server on the loopback interface, and replies by a table."""

from __future__ import annotations

import asyncio
import base64
import io
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from PIL import Image
from tests.models.listening import listening
from tests.models.wire_server import WireServer, chat, status

from saccade.core.retry import RetryPolicy
from saccade.errors import SettingsError
from saccade.plugins.vista.endpoints import ReplyError, read_reply
from saccade.record.execution import Status
from saccade.tools.context import ProblemKind, ToolContext, ToolResult
from saccade.tools.registry import make_tool, own_name
from saccade.tools.setup import VARIABLE

CONTEXT = ToolContext({"chart": Image.new("RGB", (60, 40), "white")})
NAMES = ("chartmoe", "chartassistant", "chartvlm", "diagram_formalizer", "gllava", "multimath")
TABLE = "| label | value |\n|---|---|\n| Mon | 3 |"
Named = Callable[[str], None]


@pytest.fixture
def named(server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Named:
    """Writes a setup in which the tool's model is that of the server."""

    def write(tool: str) -> None:
        file = tmp_path / "setup.toml"
        file.write_text(f"[{tool}]\nmodel = 'compatible:it@{server.url}/v1'\n", encoding="utf-8")
        monkeypatch.setenv(VARIABLE, str(file))

    return write


def value_of(name: str, arguments: object) -> Any:
    result = make_tool(name).call(arguments, CONTEXT, alias=name)
    assert result.ok, result.problem
    return result.value


@pytest.mark.parametrize(
    ("tool", "call", "arguments", "reply", "field", "value"),
    [
        ("chartmoe", "chartmoe_to_table", {}, f"Here it is:\n```markdown\n{TABLE}\n```", "table",
         {"title": "", "header": ["label", "value"], "rows": [["Mon", "3"]]}),
        ("chartmoe", "chartmoe.extract_data", {}, TABLE, "table",
         {"title": "", "header": ["label", "value"], "rows": [["Mon", "3"]]}),
        ("chartmoe", "chartmoe", {"task": "answer", "question": "How many?"}, "Three.\n**Answer: 3.**", "answer", "3"),
        ("chartmoe", "chartmoe_analyze", {}, "The total is 3.", "text", "The total is 3."),
        ("chartmoe", "chartmoe_describe", {"box": [0, 0, 30, 30]}, "A bar chart.", "text", "A bar chart."),
        ("chartassistant", "chartast", {}, "Sales rise.", "text", "Sales rise."),
        ("chartvlm", "chartvlm", {}, "The red bars rise.", "text", "The red bars rise."),
        ("diagram_formalizer", "diagramformalizer", {}, "- Equal(LengthOfLine(AB),5)\n- ParallelBetweenLine(AB,CD).",
         "statements", ["Equal(LengthOfLine(AB),5)", "ParallelBetweenLine(AB,CD)"]),
        ("diagram_formalizer", "diagram_formalizer_construction_cdl", {}, "Shape(AB,BC,CA)", "statements",
         ["Shape(AB,BC,CA)"]),
        ("gllava", "g_llava", {"problem": "Find x."}, "x = 180 - 100.\nAnswer: 80", "answer", "80"),
        ("multimath", "multimath_server", {"question": "Find x."}, "Final Answer: $\\frac{1}{2}$", "answer",
         "\\frac{1}{2}"),
    ],
)  # fmt: skip
def test_each_tool_by_a_recorded_form(
    server: WireServer, named: Named, tool: str, call: str, arguments: object, reply: str, field: str, value: object
) -> None:
    named(tool)
    server.will(chat(reply))
    assert own_name(call) == tool
    made = make_tool(call)
    result = made.call(arguments, CONTEXT, alias=call)
    assert result.ok, result.problem
    assert result.value[field] == value
    assert result.value["repaired"] is False
    (body,) = server.bodies
    assert body["model"] == "it"
    kinds = [part["type"] for part in body["messages"][0]["content"]]
    assert kinds == ["image_url", "text"]


def test_a_reply_of_another_form_is_asked_for_once_more(server: WireServer, named: Named) -> None:
    named("chartmoe")
    server.will(chat("It shows three bars."), chat(TABLE))
    value = value_of("chartmoe_to_table", {})
    assert value["repaired"] is True
    assert value["table"]["rows"] == [["Mon", "3"]]
    again = server.bodies[1]["messages"]
    assert [message["role"] for message in again] == ["user", "assistant", "user"]
    assert "no Markdown table" in str(again[2]["content"])


def test_a_second_wrong_reply_is_a_failure_of_the_tool(server: WireServer, named: Named) -> None:
    named("chartmoe")
    server.will(chat("No."))
    result = make_tool("chartmoe").call({"task": "to_table"}, CONTEXT)
    assert len(server.bodies) == 2
    assert result.problem.kind is ProblemKind.TOOL_FAILURE
    assert "no Markdown table" in result.problem.detail


def test_a_server_that_refuses_makes_the_tool_unavailable(server: WireServer, named: Named) -> None:
    named("gllava")
    server.will(status(401, "who are you"))
    result = make_tool("gllava").call({"question": "Find x."}, CONTEXT)
    assert result.problem.kind is ProblemKind.UNAVAILABLE
    assert "did not answer" in result.problem.detail


def test_a_question_is_asked_for(named: Named) -> None:
    named("chartmoe")
    result = make_tool("chartmoe").call({"task": "answer"}, CONTEXT)
    assert result.problem.kind is ProblemKind.ARGUMENT_FORMAT


def test_every_tool_has_its_prompts() -> None:
    tables = tomllib.loads((files("saccade.plugins.vista") / "prompts.toml").read_text("utf-8"))
    assert set(tables) == set(NAMES)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("", "text"), ("```\n```", "text"), ("three", "answer"), ("| a |\n|---|", "table"),
        ("| a | b |\n|---|---|\n| 1 |", "table"), ("It is a triangle.", "statements"), ("Equal(x,(5)", "statements"),
    ],
)  # fmt: skip
def test_replies_of_another_form(text: str, form: Any) -> None:
    with pytest.raises(ReplyError):
        read_reply(text, form)


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
        tables = "".join(f"[{tool}]\nmodel = 'compatible:tiny@{url}'\nmax_tokens = 24\n" for tool, _ in TASKS.values())
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
            assert result.problem.kind is ProblemKind.TOOL_FAILURE, (form, result)
    assert not found["table"].ok, "noise is no table"
    assert not found["statements"].ok


OWN = '[multimath.solve]\nform = "text"\nprompt = "SOLVE THIS: {question}"\n'


def test_a_file_of_prompts_takes_the_place_of_the_tasks_that_it_names(
    server: WireServer, named: Named, tmp_path: Path
) -> None:
    named("multimath")
    (tmp_path / "mine.toml").write_text(OWN, "utf-8")
    with (tmp_path / "setup.toml").open("a", encoding="utf-8") as setup:
        setup.write("prompts = 'mine.toml'\n")
    server.will(chat("It is four."))
    assert value_of("multimath", {"question": "Find x."})["text"] == "It is four."
    assert server.bodies[0]["messages"][0]["content"][1]["text"] == "SOLVE THIS: Find x."
    assert value_of("multimath", {"question": "Find x.", "task": "explain"})["task"] == "explain"
    assert "Explain step by step" in server.bodies[1]["messages"][0]["content"][1]["text"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[multimath.solv]\nform = 'text'\nprompt = 'a'\n", "multimath has no task solv. It has: solve"),
        ("[multimath.solve]\nform = 'prose'\nprompt = 'a'\n", "is no file of prompts"),
        ("[multimath.solve]\nprompt = 'a'\n", "is no file of prompts"),
        ("[multimath\n", "is no file of prompts"), ("multimath = 1\n", "is no file of prompts"), (None, "No such file"),
    ],
)  # fmt: skip
def test_a_file_of_prompts_that_cannot_be_used_is_refused_at_the_start(
    named: Named, tmp_path: Path, content: str | None, says: str
) -> None:
    named("multimath")
    if content is not None:
        (tmp_path / "mine.toml").write_text(content, "utf-8")
    with (tmp_path / "setup.toml").open("a", encoding="utf-8") as setup:
        setup.write("prompts = 'mine.toml'\n")
    with pytest.raises(SettingsError, match=re.escape(says)):
        make_tool("multimath")


@dataclass
class Solver:
    """The authors' server for MultiMath: what it was sent, and what it answers."""

    answers: list[tuple[int, Any]] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)

    async def solve(self, request: Request) -> JSONResponse:
        assert request.headers["content-type"] == "application/json"
        self.sent.append(await request.json())
        code, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return JSONResponse(body, code)


@pytest.fixture
def solver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Solver]:
    app, made = FastAPI(), Solver()
    app.post("/solve")(made.solve)
    app.get("/health")(lambda: {"status": "ok"})
    with listening(app) as url:
        (tmp_path / "setup.toml").write_text(f"[multimath]\nmodel = 'solve:{url}'\n", encoding="utf-8")
        monkeypatch.setenv(VARIABLE, str(tmp_path / "setup.toml"))
        yield made


def test_the_authors_server_is_asked_as_their_client_asks_it(solver: Solver) -> None:
    solver.answers = [(200, {"success": True, "answer": "20.4", "steps": ["Step 1: y = 6/5.", "Step 2: 18 + 2y."]})]
    value = value_of("multimath", {"question": "Find XZ.", "task": "solve"})
    assert (value["answer"], value["text"]) == ("20.4", "Step 1: y = 6/5.\nStep 2: 18 + 2y.\nAnswer: 20.4")
    (body,) = solver.sent
    picture = Image.open(io.BytesIO(base64.b64decode(body.pop("image_base64"))))
    assert picture.size == (60, 40)
    assert body == {
        "question": "Find XZ.", "task": "solve", "output_format": "with_steps", "problem_type": "general"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "status", "says"),
    [
        ([(200, {"success": False, "error": "CUDA out of memory"})], Status.REFUSED, "CUDA out of memory"),
        ([(404, {"detail": "Not Found"})], Status.REFUSED, "404"),
        ([(200, ["no object"])], Status.REFUSED, "did not solve it"),
        ([(200, {"success": True, "answer": ""})], Status.ERROR, "no last line"),
        ([(503, {}), (200, {"success": True, "answer": "4", "steps": None})], Status.OK, ""),
        ([(503, {})], Status.LOST, "503"),
    ],
)
def test_what_the_authors_server_answers_otherwise(
    solver: Solver, answers: list[tuple[int, Any]], status: Status, says: str
) -> None:
    solver.answers = answers
    tool = make_tool("multimath")
    tool.retry = RetryPolicy(tries=2, first_seconds=0.01)
    result = tool.call({"question": "Find XZ."}, CONTEXT)
    assert result.status is status, result
    assert says in (result.problem.detail if result.problem else "")


async def test_whether_an_endpoint_is_ready(solver: Solver, tmp_path: Path) -> None:
    tool = make_tool("multimath")
    assert await tool.ready() == ""
    (tmp_path / "setup.toml").write_text("[multimath]\nmodel = 'solve:http://127.0.0.1:9'\n", encoding="utf-8")
    assert "cannot be reached" in await tool.ready()
    (tmp_path / "setup.toml").write_text("[multimath]\nmodel = 'openia:gpt-4.1'\n", encoding="utf-8")
    assert "openia" in await tool.ready()
