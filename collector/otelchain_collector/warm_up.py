"""A first request that nobody sent: decoding it loads what decoding needs.

Arrow looks for pandas, prices are read, the policy's patterns become automata. That takes 0.23 s,
13 ms from then on, and eight clients that send at once would all wait for it: with 240 requests
their 99th percentile was 350 ms instead of 185 (`bench_collector.py --requests 240`).
"""

import logging
import time
import uuid
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otelchain_collector.decoding import EncodedRequest, decode_request
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.redaction.stage import Redaction
from otelchain_collector.signals import TRACES

# More than what is decoded row by row.
_BYTES: Final = 320 * 1024
_TEXT: Final = "The order was packed on Sunday evening, left on Monday, and is waiting since. " * 24
_TEXTS: Final = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.input.messages": f'[{{"role":"user","parts":[{{"type":"text","content":"{_TEXT}"}}]}}]',
    "otelchain.run.type": "chat_model",
}
_TOKENS: Final = {"gen_ai.usage.input_tokens": 412, "gen_ai.usage.output_tokens": 96}

_logger = logging.getLogger(__name__)


def warm_up(max_attribute_bytes: int, redaction: Redaction | None) -> None:
    """Decode a request of model runs and forget it; on the thread that decodes."""
    request = EncodedRequest(_body(), parse_protobuf)
    try:
        decode_request(TRACES, request, time.time_ns(), max_attribute_bytes, redaction)
    except Exception:  # a real one will say whether it matters
        _logger.exception("the first request could not be decoded")


def _body() -> bytes:
    """Return a request that is large enough to be decoded in columns."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(_BYTES // len(_TEXT)):
        identity = uuid.UUID(int=number + 1)
        span = spans.add(name="chat gpt-4o", trace_id=identity.bytes, span_id=identity.bytes[8:])
        for key, text in {**_TEXTS, "otelchain.run.id": str(identity)}.items():
            span.attributes.add(key=key).value.string_value = text
        for key, count in _TOKENS.items():
            span.attributes.add(key=key).value.int_value = count
    return request.SerializeToString()
