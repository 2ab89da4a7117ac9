"""A request's bytes → decoded records, for every signal and encoding (between ingest and writer).

Redaction comes first, bytes in, bytes out: no row is ever made of what the policy takes out. Only
the identity of a log record or data point is that of what came (content_id.py).
"""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from otelchain_collector.attribute_limit import cut_long_values
from otelchain_collector.content_id import as_they_came
from otelchain_collector.decode import Decoded, decode
from otelchain_collector.decode_logs import decode_logs
from otelchain_collector.decode_metrics import decode_metrics
from otelchain_collector.otlp_arrow import FlatSpans, NotTakenError
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.otlp_request import OtlpRequest
from otelchain_collector.record_limit import check_json, check_protobuf
from otelchain_collector.redaction.found import Finding
from otelchain_collector.redaction.stage import Redaction
from otelchain_collector.rows import RejectedRecord
from otelchain_collector.signals import LOGS, METRICS, TRACES, Signal
from otelchain_collector.span_columns import decode_columns

# Arrow costs 1.2 ms a request and then 15 µs a span, protobuf's messages 26 µs a span: they meet at
# some 100 spans of a model's run.
_LEAST_BYTES_FOR_COLUMNS = 256 * 1024

_DECODERS: dict[str, Callable[[Any, int], Decoded]] = {
    TRACES.name: decode,
    LOGS.name: decode_logs,
    METRICS.name: decode_metrics,
}

_logger = logging.getLogger(__name__)


class EncodedRequest(NamedTuple):
    """A request as it arrived, decompressed, and what reads it: parse_json or parse_protobuf."""

    body: bytes
    parse: Callable[[Signal, bytes, int], OtlpRequest]


def decode_request(
    signal: Signal,
    request: EncodedRequest,
    received_time_unix_nano: int,
    max_attribute_bytes: int,
    redaction: Redaction | None = None,
) -> Decoded:
    """Decode a request.

    Args:
        signal: Of which signal it is.
        request: The request.
        received_time_unix_nano: When it was received.
        max_attribute_bytes: Longest attribute value; longer ones are cut.
        redaction: What it passes first; None where nothing is redacted.

    Raises:
        MalformedRequestError: Not even its envelope can be decoded.
        StoreUnavailableError: The key of identities cannot be read or kept now.
        TooManyRecordsError: It has too many parts.
    """
    if request.parse is parse_protobuf:
        check_protobuf(signal, request.body)
    else:
        check_json(request.body)
    if redaction is None:
        return _decode(signal, request, received_time_unix_nano, max_attribute_bytes)
    unreadable: list[RejectedRecord] = []
    if request.parse is not parse_protobuf:
        # In JSON a text can be written in many ways, in protobuf in one.
        parsed = request.parse(signal, request.body, received_time_unix_nano)
        request = EncodedRequest(parsed.message.SerializeToString(), parse_protobuf)
        unreadable = parsed.unreadable
    body, findings, flat = redaction.redacted(signal, request.body, received_time_unix_nano)
    changed = request._replace(body=body)
    decoded = _decode(signal, changed, received_time_unix_nano, max_attribute_bytes, flat)
    if findings and signal is not TRACES:
        came = _decode_messages(signal, request, received_time_unix_nano, max_attribute_bytes)
        key = redaction.identity_key.value
        decoded.logs[:] = as_they_came(decoded.logs, came.logs, key)
        points = as_they_came(decoded.metric_points, came.metric_points, key)
        decoded.metric_points[:] = points
    findings = _with_record_ids(findings, decoded)
    rejected = [*decoded.rejected, *unreadable]
    decoded.rejected[:] = [redaction.rejected(record, findings) for record in rejected]
    decoded.findings.extend(findings)
    return decoded


def _with_record_ids(findings: list[Finding], decoded: Decoded) -> list[Finding]:
    """Name the first record of the request in each finding: by it the store knows a resend."""
    records = decoded.logs or decoded.metric_points
    if not records:
        return findings
    return [finding._replace(record_id=records[0].record_id) for finding in findings]


def _decode(
    signal: Signal,
    request: EncodedRequest,
    received_time_unix_nano: int,
    max_attribute_bytes: int,
    flat: FlatSpans | None = None,
) -> Decoded:
    size_bytes = len(request.body)
    if (
        signal is TRACES
        and request.parse is parse_protobuf
        # In a smaller one no value can be too long.
        and _LEAST_BYTES_FOR_COLUMNS <= size_bytes <= max_attribute_bytes
    ):
        try:
            return decode_columns(request.body, received_time_unix_nano, flat)
        except NotTakenError:
            pass
        except Exception:  # a fault of ours; the plain decoder may know better
            _logger.exception("a request could not be decoded in columns")
    return _decode_messages(signal, request, received_time_unix_nano, max_attribute_bytes)


def _decode_messages(
    signal: Signal,
    encoded: EncodedRequest,
    received_time_unix_nano: int,
    max_attribute_bytes: int,
) -> Decoded:
    request = encoded.parse(signal, encoded.body, received_time_unix_nano)
    if request.size_bytes > max_attribute_bytes:
        count = cut_long_values(request.message, max_attribute_bytes)
        if count:
            _logger.warning("cut %d values of more than --max-attribute-bytes", count)
    decoded = _DECODERS[signal.name](request.message, received_time_unix_nano)
    decoded.rejected.extend(request.unreadable)
    return decoded
