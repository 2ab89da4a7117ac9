"""The request that a collector decodes by itself, so that the first real one has less to do."""

import subprocess
import sys

SCRIPT = """
import sys, time
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otelchain_collector.decoding import EncodedRequest, decode_request
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.redaction.stage import Redaction
from otelchain_collector.signals import TRACES
from otelchain_collector.warm_up import warm_up

redaction = Redaction.of("personal")
if "warm" in sys.argv:
    warm_up(8 << 20, redaction)
known = set(sys.modules)
request = ExportTraceServiceRequest()
spans = request.resource_spans.add().scope_spans.add().spans
for number in range(1, 301):
    span = spans.add(name="s", trace_id=bytes(15) + b"1", span_id=number.to_bytes(8, "big"))
    span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    span.attributes.add(key="gen_ai.request.model").value.string_value = "gpt-4o"
    span.attributes.add(key="note").value.string_value = "a quiet afternoon by the lake " * 40
encoded = EncodedRequest(request.SerializeToString(), parse_protobuf)
decoded = decode_request(TRACES, encoded, time.time_ns(), 8 << 20, redaction)
print(len(decoded.rows), len(set(sys.modules) - known))
"""


def loaded_by_a_request(*arguments: str) -> int:
    # In a process of its own: here everything has been loaded by other tests.
    command = [sys.executable, "-c", SCRIPT, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    spans, modules = map(int, run.stdout.split())
    assert spans == 300
    return modules


def test_after_it_a_request_has_nothing_to_load() -> None:
    assert loaded_by_a_request("warm") == 0
    assert loaded_by_a_request() > 100
