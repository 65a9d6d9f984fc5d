"""Spans through OpenTelemetry's own package: to any of its exporters, to a file of OTLP JSON, or to a collector.

    export_spans(trajectories, InMemorySpanExporter())

Ids come from the trajectory, so that spans which are sent twice are the same spans. Nothing is sampled out, and no
variable of the environment changes what is exported; those of the OTLP exporter (headers, certificates) hold.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from saccade.core.disk import atomic_file
from saccade.core.registry import install, own_version
from saccade.errors import RecordError, SettingsError, UnavailableError
from saccade.models.registry import PROVIDERS, Provider
from saccade.record.content import Action, Code, Message, TextPart, ToolCall
from saccade.record.execution import Execution, HostedCall, Status
from saccade.record.trajectory import FinishReason, Sampling, Trajectory, Turn, conversation

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

# What was said, run and shown, as attributes of spans: only for who asks for it, since it may hold anything.
#
# Messages follow the conventions' JSON schemas of input and output messages. Pictures and videos are named
# (`urn:sha256:…`), and their bytes are never in a span.

INPUT, OUTPUT, SYSTEM = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"
ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"


def agent_content(trajectory: Trajectory) -> dict[str, str]:
    """Return the question as it was first shown, and the answer."""
    found = _asked(trajectory.prompt)
    if trajectory.answer is not None:
        parts = [{"type": "text", "content": trajectory.answer}]
        found[OUTPUT] = _json([{"role": "assistant", "parts": parts, "finish_reason": "stop"}])
    if trajectory.stop_detail:
        found["saccade.stop_detail"] = trajectory.stop_detail
    return found


def chat_content(trajectory: Trajectory, number: int, finish: object) -> dict[str, str]:
    """Return what the model read before turn `number`, and what it wrote; `finish` says why it ended, if known."""
    turn = trajectory.turns[number]
    reason = str(finish[0]) if isinstance(finish, tuple) else "stop"
    said = {"role": "assistant", "parts": _said(turn), "finish_reason": reason}
    return {**_asked(conversation(trajectory.prompt, trajectory.turns[:number])), OUTPUT: _json([said])}


def tool_content(action: Action, execution: Execution) -> dict[str, str]:
    """Return the code or call of a turn, and its result."""
    given = {"code": action.code} if isinstance(action, Code) else {}
    if isinstance(action, ToolCall):
        given = dict(action.arguments)  # type: ignore[arg-type]
    return {ARGUMENTS: _json(given), RESULT: _json(_outcome(execution))}


def hosted_content(call: HostedCall) -> dict[str, str]:
    """Return the code that the provider's sandbox ran, and its result."""
    return {ARGUMENTS: _json({"code": call.code, "language": call.language}), RESULT: _json(_outcome(call.execution))}


def _asked(messages: Iterable[Message]) -> dict[str, str]:
    system = [part for message in messages if message.role == "system" for part in _parts(message)]
    others = [{"role": message.role, "parts": _parts(message)} for message in messages if message.role != "system"]
    return {INPUT: _json(others), **({SYSTEM: _json(system)} if system else {})}


def _parts(message: Message) -> list[dict[str, Any]]:
    parts = [
        {"type": "text", "content": part.text}
        if isinstance(part, TextPart)
        else {"type": "uri", "modality": part.kind, "mime_type": part.mime, "uri": f"urn:sha256:{part.sha256}"}
        for part in message.parts
    ]
    if message.call_id is not None:
        return [{"type": "tool_call_response", "id": message.call_id, "response": parts}]
    return [*parts, *map(_call, message.calls)]


def _call(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": dict(call.arguments)}


def _said(turn: Turn) -> list[dict[str, Any]]:
    """Return the texts, with calls of a provider's sandbox where they stood, and native calls at the end."""
    parts: list[dict[str, Any]] = []
    begin = 0
    for number, call in enumerate(turn.hosted):
        if text := turn.text[begin : call.at]:
            parts.append({"type": "text", "content": text})
        name = call.call_id or f"hosted-{number}"
        asked = {"type": call.tool, "code": call.code, "language": call.language}
        parts.append({"type": "server_tool_call", "id": name, "name": call.tool, "server_tool_call": asked})
        came = {"type": call.tool, **_outcome(call.execution)}
        parts.append({"type": "server_tool_call_response", "id": name, "server_tool_call_response": came})
        begin = call.at
    if text := turn.text[begin:]:
        parts.append({"type": "text", "content": text})
    return [*parts, *map(_call, turn.calls)]


def _outcome(execution: Execution) -> dict[str, Any]:
    """Return the result of a call; empty fields are left out."""
    found: dict[str, Any] = {
        "status": execution.status.value,
        "stdout": execution.stdout,
        "stderr": execution.stderr,
        "value": execution.value,
        "traceback": execution.traceback,
        "pictures": [f"urn:sha256:{picture.image.sha256}" for picture in execution.pictures],
        "notes": list(execution.notes),
    }
    return {name: value for name, value in found.items() if value}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# A trajectory as spans by OpenTelemetry's conventions for generative AI; pure data, without their package.
#
#     invoke_agent saccade
#         chat gpt-4.1              a turn of the model
#         execute_tool run_python   what that turn ran here
#         chat gpt-4.1
#             execute_tool code_interpreter      what the provider's own sandbox ran meanwhile
#
# No text, code or picture is in them, unless `content` is asked for: see `span_content`. Names of attributes are those
# of the conventions (still in development there); what they have no name for stands under `saccade.`.
#
# A record holds how long each turn took and when the episode ended, so spans are laid one after the other: the first
# begins where the episode did, and what took time besides model and tools is at the end. Calls of a provider's sandbox
# have no times of their own and are moments at the end of their turn.
#
# Source: https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai, as of autumn 2026.


SpanValue = str | bool | int | float | Sequence[str]
SpanKindName = Literal["internal", "client"]
AGENT: Final = "saccade"
RUN_PYTHON: Final = "run_python"
"""Name of the tool that runs code."""
_HERE: Final = frozenset({"local", "tiny", "scripted", "replay", "solver"})
"""Providers whose models run in this process."""
_FINISHED: Final = {
    FinishReason.STOP: "stop",
    FinishReason.STOP_STRING: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALL: "tool_call",
    FinishReason.FILTERED: "content_filter",
    FinishReason.DECLINED: "content_filter",
}
_SAMPLING: Final = ("temperature", "top_p", "top_k", "max_tokens", "seed")


@dataclass(frozen=True, slots=True)
class SpanFacts:
    """One span and those below it."""

    name: str
    kind: SpanKindName
    start: int
    """Nanoseconds since 1970, UTC."""
    end: int
    attributes: Mapping[str, SpanValue]
    failed: str = ""
    """Type of the error that it ended with; empty for none."""
    below: tuple[SpanFacts, ...] = field(default=())


def agent_span(trajectory: Trajectory, *, content: bool = False) -> SpanFacts:
    """Return the spans of an episode, under that of the whole.

    Args:
        trajectory: a recorded episode.
        content: whether texts, code, arguments and output are in attributes too; pictures are named by sha256.

    Raises:
        RecordError: it does not say when it was recorded, so there is no time to give its spans.
    """
    if trajectory.created is None:
        raise RecordError(f"{trajectory.id} does not say when it was recorded, so its spans have no time")
    end = int(trajectory.created.timestamp() * 1e9)
    about = _model(trajectory.provenance.model)
    turns = trajectory.turns
    spent = sum(turn.model_seconds + turn.execution_seconds for turn in turns)
    at = start = end - _nanoseconds(max(trajectory.seconds, spent))
    below: list[SpanFacts] = []
    for number, turn in enumerate(turns):
        said = at + _nanoseconds(turn.model_seconds)
        below.append(_chat(trajectory, number, about, (at, said), content))
        at = said
        if turn.execution is not None:
            at = said + _nanoseconds(turn.execution_seconds)
            below.append(_tool(turn, turn.execution, (said, at), content))
    failed = trajectory.stop.value if trajectory.lost and trajectory.stop is not None else ""
    attributes = {
        **_operation("invoke_agent", failed),
        **about.attributes,
        **_request(trajectory.provenance.sampling),
        **_about(trajectory),
        **_usage(turns),
        **(agent_content(trajectory) if content else {}),
    }
    return SpanFacts(f"invoke_agent {AGENT}", "internal", start, end, attributes, failed, tuple(below))


@dataclass(frozen=True, slots=True)
class _Asked:
    name: str
    kind: SpanKindName
    attributes: Mapping[str, SpanValue]


def _conventional(provider: str) -> str:
    """Return the name that the conventions give to a provider; any other keeps its own."""
    known = PROVIDERS.load(provider) if provider and PROVIDERS.has(provider) else None
    return (known.telemetry_name if isinstance(known, Provider) else "") or provider or "unknown"


def _model(recorded: str) -> _Asked:
    """Read the recorded name `provider:name@address`; of the address only host and port, as it may hold a secret."""
    provider, _, rest = recorded.partition(":")
    name, marker, address = rest.rpartition("@http")
    name = name if marker else rest
    found: dict[str, SpanValue] = {"gen_ai.provider.name": _conventional(provider)}
    if name or provider:
        found["gen_ai.request.model"] = name or provider
    if marker:
        parts = urlsplit(f"http{address}")
        if parts.hostname:
            found["server.address"] = parts.hostname
            found["server.port"] = parts.port or (443 if parts.scheme == "https" else 80)
    return _Asked(name or provider or "unknown", "internal" if provider in _HERE else "client", found)


def _chat(trajectory: Trajectory, number: int, about: _Asked, times: tuple[int, int], content: bool) -> SpanFacts:
    turn, provenance = trajectory.turns[number], trajectory.provenance
    attributes: dict[str, SpanValue] = {
        **_operation("chat"),
        **about.attributes,
        **_request(provenance.sampling),
        **_usage((turn,)),
        "gen_ai.conversation.id": trajectory.id,
        "saccade.turn": number,
    }
    if provenance.model_revision:
        attributes["gen_ai.response.model"] = provenance.model_revision
    if turn.finish_reason is not None:
        attributes["gen_ai.response.finish_reasons"] = (_FINISHED[turn.finish_reason],)
    if content:
        attributes |= chat_content(trajectory, number, attributes.get("gen_ai.response.finish_reasons"))
    below = []
    for call in turn.hosted:
        failed = "" if call.execution.status is Status.OK else call.execution.status.value
        own: dict[str, SpanValue] = {
            **_operation("execute_tool", failed),
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.type": "extension",
            "saccade.pictures": len(call.execution.pictures),
            **({"gen_ai.tool.call.id": call.call_id} if call.call_id else {}),
            **(hosted_content(call) if content else {}),
        }
        below.append(SpanFacts(f"execute_tool {call.tool}", "internal", times[1], times[1], own, failed))
    return SpanFacts(f"chat {about.name}", about.kind, *times, attributes, below=tuple(below))


def _tool(turn: Turn, execution: Execution, times: tuple[int, int], content: bool) -> SpanFacts:
    action = turn.action
    name = action.name if isinstance(action, ToolCall) else RUN_PYTHON
    failed = "" if execution.status is Status.OK else execution.status.value
    call_id = turn.calls[0].call_id if turn.calls else None
    attributes: dict[str, SpanValue] = {
        **_operation("execute_tool", failed),
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "saccade.pictures": len(execution.pictures),
        **({"gen_ai.tool.call.id": call_id} if call_id else {}),
        **(tool_content(action, execution) if content else {}),
    }
    return SpanFacts(f"execute_tool {name}", "internal", *times, attributes, failed)


def _operation(name: str, failed: str = "") -> dict[str, SpanValue]:
    return {"gen_ai.operation.name": name, **({"error.type": failed} if failed else {})}


def _request(sampling: Sampling) -> dict[str, SpanValue]:
    return {f"gen_ai.request.{name}": value for name in _SAMPLING if (value := getattr(sampling, name)) is not None}


def _about(trajectory: Trajectory) -> dict[str, SpanValue]:
    found: dict[str, SpanValue] = {
        "gen_ai.agent.name": AGENT,
        "gen_ai.conversation.id": trajectory.id,
        "saccade.task": trajectory.task.id,
        "saccade.rollout": trajectory.rollout,
    }
    texts = {
        "gen_ai.agent.version": trajectory.provenance.saccade,
        "saccade.dialect": trajectory.provenance.dialect,
        "saccade.source": trajectory.task.source,
        "saccade.group": trajectory.group,
        "saccade.stop": trajectory.stop.value if trajectory.stop is not None else "",
    }
    found |= {name: value for name, value in texts.items() if value}
    found |= {f"saccade.score.{score.name}": score.value for score in trajectory.scores if score.value is not None}
    return found


def _usage(turns: Sequence[Turn]) -> dict[str, SpanValue]:
    """Sums; what one of the turns does not say is left out."""
    counts = [turn.tokens for turn in turns]
    named = {
        "gen_ai.usage.input_tokens": [count.context for count in counts],
        "gen_ai.usage.output_tokens": [count.sampled for count in counts],
        "gen_ai.usage.cache_read.input_tokens": [count.context_cached for count in counts],
    }
    found: dict[str, SpanValue] = {}
    for name, values in named.items():
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            found[name] = sum(known)
    prices = [turn.dollars for turn in turns if turn.dollars is not None]
    if prices and len(prices) == len(counts):
        found["saccade.dollars"] = sum(prices)
    return found


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


NEEDED: Final = f"OpenTelemetry's package is not installed: {install('otel')}"
SCOPE: Final = "saccade"
_IDS: Final = {"traceId", "spanId", "parentSpanId"}


def export_spans(trajectories: Iterable[Trajectory], exporter: SpanExporter, *, content: bool = False) -> int:
    """Give the spans of the episodes to `exporter`, one episode after the other; how many spans there were.

    Args:
        trajectories: recorded episodes.
        exporter: one of the official package's; it stays open.
        content: see `spans.agent_span`.

    Raises:
        UnavailableError: the package is not installed.
        RecordError: an episode does not say when it was recorded.
        SettingsError: the exporter could not deliver.
    """
    load_sdk()
    from opentelemetry.sdk.trace.export import SpanExportResult

    count = 0
    for trajectory in trajectories:
        spans = sdk_spans(trajectory, content=content)
        if exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise SettingsError(
                f"the spans of {trajectory.id} could not be delivered (after {count} others). Is the endpoint one "
                "of OTLP over HTTP, as http://host:4318/v1/traces?"
            )
        count += len(spans)
    return count


class _SpanExport:
    """`saccade export --to otel`."""

    items = "spans"
    file_name = "spans.jsonl"

    def export(self, episodes: Iterable[Trajectory], target: Path | str, *, content: bool) -> int:
        """Write spans to a file of OTLP JSON, or send them to the collector at an address."""
        with endpoint_exporter(target) if isinstance(target, str) else file_exporter(target) as exporter:
            return export_spans(episodes, exporter, content=content)


EXPORT: Final = _SpanExport()


def sdk_spans(trajectory: Trajectory, *, content: bool = False) -> list[ReadableSpan]:
    """Return the spans of one episode as objects of the package, the outermost first. Raises as `export_spans`."""
    load_sdk()
    outermost = agent_span(trajectory, content=content)
    return list(_built(outermost, _Ids(f"{trajectory.id} {outermost.end}"), None))


class _Ids:
    def __init__(self, seed: str) -> None:
        self.trace = int.from_bytes(sha256(seed.encode()).digest()[:16]) or 1
        self._seed = seed
        self._given = 0

    def span(self) -> int:
        self._given += 1
        return int.from_bytes(sha256(f"{self._seed} {self._given}".encode()).digest()[:8]) or 1


def _built(facts: SpanFacts, ids: _Ids, parent: Any) -> Iterator[ReadableSpan]:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    context = SpanContext(ids.trace, ids.span(), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    yield ReadableSpan(
        name=facts.name,
        context=context,
        parent=parent,
        resource=Resource({"service.name": "saccade", "service.version": own_version()}),
        attributes=dict(facts.attributes),
        kind=SpanKind.CLIENT if facts.kind == "client" else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR) if facts.failed else Status(StatusCode.UNSET),
        start_time=facts.start,
        end_time=facts.end,
        instrumentation_scope=InstrumentationScope(SCOPE, own_version()),
    )
    for below in facts.below:
        yield from _built(below, ids, context)


@contextmanager
def file_exporter(path: Path) -> Iterator[SpanExporter]:
    """Open an exporter into a file of OTLP JSON, a line for each episode; it appears complete or not at all.

    Raises:
        UnavailableError: the package is not installed.
    """
    load_sdk()
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as partial, partial.open("w", encoding="utf-8") as file:

        class OtlpJson(SpanExporter):
            def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
                file.write(json.dumps(otlp_json(spans), ensure_ascii=False) + "\n")
                return SpanExportResult.SUCCESS

            def shutdown(self) -> None:
                """Do nothing: the block closes the file."""

        yield OtlpJson()


@contextmanager
def endpoint_exporter(endpoint: str) -> Iterator[SpanExporter]:
    """Open the package's exporter to a collector, by OTLP over HTTP. Raises `UnavailableError` without the package."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise UnavailableError(NEEDED) from error
    exporter = OTLPSpanExporter(endpoint=endpoint)
    try:
        yield exporter
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]


def otlp_json(spans: Sequence[ReadableSpan]) -> dict[str, Any]:
    """Spans as one request of OTLP in its JSON form: ids are hexadecimal there, and not the base64 of protobuf's."""
    try:
        from google.protobuf.json_format import MessageToDict
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    except ImportError as error:
        raise UnavailableError(NEEDED) from error
    plain: dict[str, Any] = _hexadecimal(MessageToDict(encode_spans(spans), use_integers_for_enums=True))
    return plain


def _hexadecimal(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: base64.b64decode(item).hex() if name in _IDS else _hexadecimal(item) for name, item in value.items()
        }
    return [_hexadecimal(item) for item in value] if isinstance(value, list) else value


def load_sdk() -> None:
    """Raises `UnavailableError` if the package is not installed."""
    try:
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError as error:
        raise UnavailableError(NEEDED) from error
