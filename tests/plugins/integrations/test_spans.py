"""Episodes as OpenTelemetry's spans: through the official package's exporters, as OTLP JSON, and over HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")
from fastapi import FastAPI, Request, Response
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.models.listening import listening
from typer.testing import CliRunner

from saccade.cli.data import export_verb
from saccade.errors import RecordError, SettingsError
from saccade.plugins.integrations.otel import endpoint_exporter, export_spans
from saccade.record.codec import write_lines
from saccade.record.content import Answer, Code, ImagePart, Message, TextPart, ToolCall
from saccade.record.execution import Execution, ExecutionPicture, HostedCall, Status
from saccade.record.task import NamedMedia, Task
from saccade.record.trajectory import (
    FinishReason,
    Provenance,
    Sampling,
    Score,
    StopReason,
    TokenCounts,
    Trajectory,
    Turn,
)

CANARY = "canary-77"
PICTURE = ImagePart(sha256="ab" * 32, width=4, height=3)
ENDED = datetime(2026, 11, 25, 12, 0, 10, tzinfo=UTC)
SHOWN = (ExecutionPicture(image=PICTURE, source="figure"),)


def episode(**changes: Any) -> Trajectory:
    """Code, a failed call of a tool, and an answer after a call of the provider's sandbox; texts hold the canary."""
    call = ToolCall(name="crop", arguments={"box": CANARY}, call_id="c1")
    seen = Message(role="tool", parts=(TextPart(text=CANARY), PICTURE), call_id="c1")
    hosted = HostedCall(
        tool="code_interpreter",
        code=f"print('{CANARY}')",
        at=5,
        call_id="ci_1",
        execution=Execution(status=Status.ERROR, stdout=CANARY, pictures=SHOWN),
    )
    turns = (
        Turn(
            text=f"I look. {CANARY}",
            action=Code(code=f"print('{CANARY}')"),
            execution=Execution(status=Status.OK, stdout=CANARY, pictures=SHOWN),
            tokens=TokenCounts(context=100, context_cached=40, sampled=10),
            dollars=0.25,
            finish_reason=FinishReason.STOP_STRING,
            model_seconds=2.0,
            execution_seconds=1.0,
        ),
        Turn(
            text="",
            calls=(call,),
            action=call,
            execution=Execution(status=Status.TIMEOUT, traceback=CANARY),
            observation=seen,
            tokens=TokenCounts(context=200, context_cached=0, sampled=20),
            dollars=0.5,
            finish_reason=FinishReason.TOOL_CALL,
            model_seconds=3.0,
            execution_seconds=0.5,
        ),
        Turn(
            text=f"Then.{CANARY}",
            hosted=(hosted,),
            action=Answer(text=CANARY),
            tokens=TokenCounts(context=300, context_cached=0, sampled=30),
            dollars=1.0,
            finish_reason=FinishReason.STOP,
            model_seconds=1.5,
        ),
    )
    about = Provenance(
        saccade="1",
        dialect="native@1",
        model=f"vllm:org/name@http://user:{CANARY}@host:8000/v1",
        model_revision="served",
        sampling=Sampling(temperature=0.5, max_tokens=99),
        settings=CANARY,
    )
    fields: dict[str, Any] = {
        "id": "t#0",
        "task": Task(id="t", question=CANARY, media=(NamedMedia(name="photo", part=PICTURE),), answer=CANARY),
        "provenance": about,
        "prompt": (
            Message(role="system", parts=(TextPart(text=f"Rules {CANARY}"),)),
            Message(role="user", parts=(PICTURE, TextPart(text=CANARY))),
        ),
        "turns": turns,
        "stop": StopReason.ANSWERED,
        "stop_detail": CANARY,
        "scores": (Score(name="correct", value=1.0, detail=CANARY),),
        "created": ENDED,
        "seconds": 9.0,
    }
    return Trajectory(**{**fields, **changes})


def exported(trajectory: Trajectory, *, content: bool = False) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    count = export_spans([trajectory], exporter, content=content)
    spans = list(exporter.get_finished_spans())
    assert count == len(spans)
    return spans


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    assert span.attributes is not None
    return span.attributes


def test_the_tree_and_its_times() -> None:
    agent, *others = spans = exported(episode())
    assert [span.name for span in spans] == [
        "invoke_agent saccade", "chat org/name", "execute_tool run_python", "chat org/name", "execute_tool crop",
        "chat org/name", "execute_tool code_interpreter",
    ]  # fmt: skip
    assert agent.parent is None
    hosted = others[-1]
    assert hosted.parent is not None
    assert hosted.parent.span_id == others[-2].context.span_id
    assert {span.parent.span_id for span in others[:-1] if span.parent} == {agent.context.span_id}
    assert {span.context.trace_id for span in spans} == {agent.context.trace_id}
    assert len({span.context.span_id for span in spans}) == len(spans)
    end = int(ENDED.timestamp()) * 10**9
    assert (agent.start_time, agent.end_time) == (end - 9 * 10**9, end)
    times = [((span.start_time or 0) - end, (span.end_time or 0) - end) for span in others]
    seconds = [(start / 1e9, stop / 1e9) for start, stop in times]
    assert seconds == [(-9, -7), (-7, -6), (-6, -3), (-3, -2.5), (-2.5, -1), (-1, -1)]


def test_names_of_the_conventions() -> None:
    agent, chat, ran, _, crop, last, hosted = exported(episode())
    assert dict(attributes(agent)) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": "org/name",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 99,
        "gen_ai.agent.name": "saccade",
        "gen_ai.agent.version": "1",
        "gen_ai.conversation.id": "t#0",
        "gen_ai.usage.input_tokens": 600,
        "gen_ai.usage.output_tokens": 60,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "server.address": "host",
        "server.port": 8000,
        "saccade.task": "t",
        "saccade.rollout": 0,
        "saccade.dialect": "native@1",
        "saccade.stop": "answered",
        "saccade.score.correct": 1.0,
        "saccade.dollars": 1.75,
    }
    assert (agent.kind, chat.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT)
    assert attributes(chat)["gen_ai.response.model"] == "served"
    reasons = [attributes(span)["gen_ai.response.finish_reasons"] for span in (chat, last)]
    assert reasons == [("stop",), ("stop",)]
    assert attributes(ran)["gen_ai.tool.name"] == "run_python"
    assert attributes(ran)["saccade.pictures"] == 1
    assert ran.status.status_code is StatusCode.UNSET
    assert (attributes(crop)["error.type"], attributes(crop)["gen_ai.tool.call.id"]) == ("timeout", "c1")
    assert crop.status.status_code is StatusCode.ERROR
    assert attributes(hosted)["gen_ai.tool.type"] == "extension"
    assert attributes(hosted)["error.type"] == "error"


@pytest.mark.parametrize(
    ("model", "provider", "name", "kind"),
    [
        ("responses:gpt-5.4", "openai", "gpt-5.4", SpanKind.CLIENT),
        ("azure:D@https://n.example/openai/v1/", "azure.ai.openai", "D", SpanKind.CLIENT),
        ("gemini:gemini-3-flash", "gcp.gemini", "gemini-3-flash", SpanKind.CLIENT),
        ("anthropic:claude-opus-4-8", "anthropic", "claude-opus-4-8", SpanKind.CLIENT),
        ("tiny", "tiny", "tiny", SpanKind.INTERNAL),
        ("local:folder", "local", "folder", SpanKind.INTERNAL),
    ],
)
def test_providers(model: str, provider: str, name: str, kind: SpanKind) -> None:
    about = episode().provenance.model_copy(update={"model": model})
    _, chat, *_ = exported(episode(provenance=about))
    found = attributes(chat)
    assert (found["gen_ai.provider.name"], found["gen_ai.request.model"], chat.kind) == (provider, name, kind)


def test_without_being_asked_no_content_is_in_a_span() -> None:
    for trajectory in (episode(), episode(stop=StopReason.MODEL_LOST)):
        plain = "".join(span.to_json() for span in exported(trajectory))
        assert CANARY not in plain
        assert PICTURE.sha256 not in plain


def test_content_follows_the_schemas_and_holds_no_pixels() -> None:
    agent, first, ran, _, crop, last, hosted = exported(episode(), content=True)
    [asked] = json.loads(attributes(first)["gen_ai.input.messages"])
    picture = {"type": "uri", "modality": "image", "mime_type": "image/png", "uri": f"urn:sha256:{PICTURE.sha256}"}
    assert asked == {"role": "user", "parts": [picture, {"type": "text", "content": CANARY}]}
    assert json.loads(attributes(first)["gen_ai.system_instructions"])[0]["content"].startswith("Rules")
    messages = json.loads(attributes(last)["gen_ai.input.messages"])
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    [response] = messages[-1]["parts"]
    assert (response["type"], response["id"], response["response"][1]) == ("tool_call_response", "c1", picture)
    assert messages[1]["parts"][-1]["type"] == "tool_call"
    [said] = json.loads(attributes(last)["gen_ai.output.messages"])
    kinds = [part["type"] for part in said["parts"]]
    assert kinds == ["text", "server_tool_call", "server_tool_call_response", "text"]
    assert said["finish_reason"] == "stop"
    assert json.loads(attributes(ran)["gen_ai.tool.call.arguments"]) == {"code": f"print('{CANARY}')"}
    assert json.loads(attributes(crop)["gen_ai.tool.call.result"]) == {"status": "timeout", "traceback": CANARY}
    assert CANARY in attributes(hosted)["gen_ai.tool.call.arguments"]
    assert json.loads(attributes(agent)["gen_ai.output.messages"])[0]["parts"][0]["content"] == CANARY


def test_an_outage_is_the_agents_error() -> None:
    agent, *_ = exported(episode(stop=StopReason.SANDBOX_LOST))
    assert (attributes(agent)["error.type"], agent.status.status_code) == ("sandbox_lost", StatusCode.ERROR)


def test_what_is_not_known_is_left_out() -> None:
    turn = Turn(text="x", action=Answer(text="x"))
    about = Provenance(model="openai:gpt-4.1")
    agent, chat = exported(episode(turns=(turn,), provenance=about, seconds=0.0))
    assert not [name for name in attributes(chat) if "usage" in name or "finish" in name or "dollars" in name]
    assert agent.start_time == agent.end_time
    with pytest.raises(RecordError, match="no time"):
        export_spans([episode(created=None)], InMemorySpanExporter())


def run_of(folder: Path, *trajectories: Trajectory) -> Path:
    folder.mkdir(exist_ok=True)
    write_lines(folder / "trajectories.jsonl", trajectories)
    return folder


def test_a_file_of_otlp_json(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", episode(seconds=1.0), episode(id="t#1"), episode())
    done = CliRunner().invoke(export_verb, [str(run), "--to", "otel"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("14 spans: ")  # the first episode was replaced by the last one
    first, second = (json.loads(line) for line in (run / "spans.jsonl").read_text().splitlines())
    [spans] = [scope["spans"] for resource in second["resourceSpans"] for scope in resource["scopeSpans"]]
    assert {len(span["traceId"]) for span in spans} == {32}
    assert {len(span["spanId"]) for span in spans} == {16}
    assert [bytes.fromhex(span["parentSpanId"]) for span in spans[1:2]] == [bytes.fromhex(spans[0]["spanId"])]
    assert spans[1]["kind"] == 3
    assert spans[0]["startTimeUnixNano"] == str((int(ENDED.timestamp()) - 9) * 10**9)
    assert CANARY not in json.dumps([first, second])
    request = ParseDict(_as_protobuf(second), ExportTraceServiceRequest())
    assert request.resource_spans[0].scope_spans[0].spans[0].name == "invoke_agent saccade"
    again = CliRunner().invoke(export_verb, [str(run), "--to", "otel", "--content", "--out", str(tmp_path / "c.jsonl")])
    assert again.exit_code == 0
    assert CANARY in (tmp_path / "c.jsonl").read_text()


def _as_protobuf(value: Any) -> Any:
    """Hexadecimal ids as the base64 that protobuf's own JSON has."""
    if isinstance(value, dict):
        ids = {"traceId", "spanId", "parentSpanId"}
        return {
            name: base64.b64encode(bytes.fromhex(item)).decode() if name in ids else _as_protobuf(item)
            for name, item in value.items()
        }
    return [_as_protobuf(item) for item in value] if isinstance(value, list) else value


def test_to_a_collector_over_http(tmp_path: Path) -> None:
    heard: list[ExportTraceServiceRequest] = []
    collector = FastAPI()

    @collector.post("/v1/traces")
    async def take(request: Request) -> Response:
        sent = ExportTraceServiceRequest()
        sent.ParseFromString(_plain(await request.body(), request.headers.get("content-encoding")))
        heard.append(sent)
        return Response(b"", media_type="application/x-protobuf")

    with listening(collector) as url:
        done = CliRunner().invoke(
            export_verb, [str(run_of(tmp_path, episode())), "--to", "otel", "--endpoint", f"{url}/v1/traces"]
        )
        assert done.exit_code == 0, done.output
        with endpoint_exporter(f"{url}/elsewhere") as exporter, pytest.raises(SettingsError, match="delivered"):
            export_spans([episode()], exporter)
    [request] = heard
    spans = request.resource_spans[0].scope_spans[0].spans
    assert len(spans) == 7
    assert CANARY not in str(request)


def _plain(body: bytes, encoding: str | None) -> bytes:
    import gzip

    return gzip.decompress(body) if encoding == "gzip" else body


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--to", "zipkin"], "otel"),
        (["--to", "otel", "--format", "csv"], "not for --to otel"),
        (["--content"], "are for forms of episodes"),
        (["--to", "otel", "--endpoint", "http://127.0.0.1:9", "--out", "x"], "one of the two"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: list[str], match: str) -> None:
    done = CliRunner().invoke(export_verb, [str(run_of(tmp_path, episode())), *options])
    assert done.exit_code != 0
    assert match in str(done.exception)


def test_an_export_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "ids.py").write_text(
        "class Ids:\n"
        "    items, file_name = 'ids', 'ids.txt'\n"
        "    def export(self, episodes, target, *, content):\n"
        "        names = [episode.id for episode in episodes]\n"
        "        target.write_text(' '.join(names))\n"
        "        return len(names)\n"
        "IDS = Ids()\n"
    )
    run = run_of(tmp_path, episode())
    done = CliRunner().invoke(export_verb, [str(run), "--to", f"{tmp_path / 'ids.py'}:IDS"])
    assert done.exit_code == 0, done.output
    assert "1 ids" in done.output
    assert (run / "ids.txt").read_text() == episode().id
