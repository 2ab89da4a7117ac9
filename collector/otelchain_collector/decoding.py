"""A request's bytes → decoded records, for every signal and encoding (between ingest and writer).

What has to look at or change a request before anything is read out of it belongs in front of
decode_request: bytes in, bytes out.
"""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from otelchain_collector.attribute_limit import cut_long_values
from otelchain_collector.decode import Decoded, decode
from otelchain_collector.decode_logs import decode_logs
from otelchain_collector.decode_metrics import decode_metrics
from otelchain_collector.otlp_arrow import NotTakenError
from otelchain_collector.otlp_protobuf import parse_protobuf
from otelchain_collector.otlp_request import OtlpRequest
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
) -> Decoded:
    """Decode a request; the time is when it was received.

    Raises:
        MalformedRequestError: Not even its envelope can be decoded.
    """
    size_bytes = len(request.body)
    if (
        signal is TRACES
        and request.parse is parse_protobuf
        # In a smaller one no value can be too long.
        and _LEAST_BYTES_FOR_COLUMNS <= size_bytes <= max_attribute_bytes
    ):
        try:
            return decode_columns(request.body, received_time_unix_nano)
        except NotTakenError:
            pass
        except Exception:  # a fault of ours; the plain decoder may know better
            _logger.exception("a request could not be decoded in columns")
    return _decode(signal, request, received_time_unix_nano, max_attribute_bytes)


def _decode(
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
