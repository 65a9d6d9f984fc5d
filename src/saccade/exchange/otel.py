"""Spans through OpenTelemetry's own package: to any of its exporters, to a file of OTLP JSON, or to a collector.

    export_spans(trajectories, InMemorySpanExporter())

Ids come from the trajectory, so that spans which are sent twice are the same spans. Nothing is sampled out, and no
variable of the environment changes what is exported; those of the OTLP exporter (headers, certificates) hold.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from saccade.errors import SettingsError, UnavailableError
from saccade.exchange.spans import SpanFacts, agent_span
from saccade.record.disk import atomic_file
from saccade.record.trajectory import Trajectory

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

NEEDED: Final = "OpenTelemetry's package is not installed: pip install 'saccade[otel]'"
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
    """The spans of one episode as objects of the package, the outermost first. Raises as `export_spans`."""
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
        resource=Resource({"service.name": "saccade", "service.version": version("saccade")}),
        attributes=dict(facts.attributes),
        kind=SpanKind.CLIENT if facts.kind == "client" else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR) if facts.failed else Status(StatusCode.UNSET),
        start_time=facts.start,
        end_time=facts.end,
        instrumentation_scope=InstrumentationScope(SCOPE, version("saccade")),
    )
    for below in facts.below:
        yield from _built(below, ids, context)


@contextmanager
def file_exporter(path: Path) -> Iterator[SpanExporter]:
    """An exporter into a file of OTLP JSON, a line for each episode; it appears complete or not at all.

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
                """The file is closed by the block."""

        yield OtlpJson()


@contextmanager
def endpoint_exporter(endpoint: str) -> Iterator[SpanExporter]:
    """The package's exporter to a collector, by OTLP over HTTP. Raises `UnavailableError` without the package."""
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
