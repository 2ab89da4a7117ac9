"""The contract of an OTLP server, line by line, and the tests that show each line.

Lines are from opentelemetry-proto/docs/specification.md (1.11.0), with its MUSTs and SHOULDs, and
from what its clients do. A test claims lines with ``@pytest.mark.otlp("id", …)``; the table of
collector/CONFORMANCE.md is made from that; test_otlp_contract.py fails when a line has no test.
"""

from typing import NamedTuple

from claims import claims


class Line(NamedTuple):
    """One line of the contract; ``where`` says over which transports it applies."""

    id: str
    where: str
    text: str


_BOTH, _GRPC, _HTTP, _JSON = "gRPC, HTTP", "gRPC", "HTTP", "HTTP JSON"

LINES = (
    Line(
        "compression",
        _BOTH,
        "MUST take requests uncompressed and with gzip; deflate too, which Python's "
        "exporter offers",
    ),
    Line(
        "ports",
        _BOTH,
        "Ports 4317 (gRPC) and 4318 (HTTP) unless told otherwise; services "
        "`…collector.{trace,logs,metrics}.v1.*Service/Export`",
    ),
    Line("three-signals", _BOTH, "Traces, logs and metrics"),
    Line(
        "request-limit",
        _BOTH,
        "MUST limit the size of a request, after decompression too; 64 MiB by default, "
        "configurable",
    ),
    Line(
        "response-limit",
        _BOTH,
        "MUST limit the response to 4 MiB, shortening `error_message` first",
    ),
    Line(
        "empty-request",
        _BOTH,
        "An empty request succeeds, and so does an empty resource, scope or metric",
    ),
    Line(
        "full-success",
        _BOTH,
        "Full success: the response message with `partial_success` unset (MUST)",
    ),
    Line(
        "partial-success",
        _BOTH,
        "Partial success: 200/OK, the count of rejected records set (MUST), an English "
        "`error_message`",
    ),
    Line(
        "drop-only-what-is-lost",
        _BOTH,
        "What makes a client drop data is answered only for data that can never be stored; "
        "trouble of the store is retryable, never 500",
    ),
    Line("unknown-fields", _BOTH, "Unknown fields MUST be ignored, in protobuf and in JSON"),
    Line(
        "strindex",
        _BOTH,
        "`string_value_strindex` and `key_strindex`, which only profiles have, do no harm "
        "and are read as empty",
    ),
    Line("duplicates", _BOTH, "A resend after a lost acknowledgement is stored once"),
    Line(
        "ids",
        _BOTH,
        "A trace id of 16 bytes and a span id of 8, not all zero; anything else is invalid, "
        "in JSON the empty text too",
    ),
    Line("root-parent", _BOTH, "The parent of a root is empty"),
    Line("flags", _BOTH, "Flags are kept with all 32 bits"),
    Line("enums", _BOTH, "Enum numbers are open: unknown ones are kept"),
    Line("times", _BOTH, "Times are 64-bit nanoseconds; an end before the start is kept"),
    Line("duplicate-keys", _BOTH, "Equal attribute keys: the last one wins"),
    Line(
        "every-field",
        _BOTH,
        "Dropped counts, `trace_state`, flags, both `schema_url`s and every other field are kept",
    ),
    Line(
        "every-value",
        _BOTH,
        "Every AnyValue is legal in every attribute: empty, bytes, mixed arrays, lists of "
        "key and value",
    ),
    Line(
        "grpc-oversize",
        _GRPC,
        "Too large: RESOURCE_EXHAUSTED without RetryInfo, so that it is not sent again",
    ),
    Line("grpc-overload", _GRPC, "Overload: UNAVAILABLE with RetryInfo"),
    Line("grpc-bad-data", _GRPC, "Not decodable: INVALID_ARGUMENT"),
    Line(
        "grpc-retry-info",
        _GRPC,
        "RetryInfo twice: in `grpc-status-details-bin` and, for Python's exporter, in "
        "`google.rpc.retryinfo-bin`; the delay is well under a client's deadline",
    ),
    Line("grpc-concurrent", _GRPC, "Concurrent unary calls on one connection"),
    Line("grpc-unknown", _GRPC, "Any other service or method: UNIMPLEMENTED"),
    Line(
        "http-post",
        _HTTP,
        "POST only, on `/v1/traces`, `/v1/logs` and `/v1/metrics`; 405 and 404 otherwise",
    ),
    Line(
        "http-no-redirect",
        _HTTP,
        "Never a redirect or a page, which Python's exporter takes for success",
    ),
    Line(
        "http-one-port",
        _HTTP,
        "Protobuf and JSON on one port, chosen by Content-Type, whose parameters and case "
        "do not matter",
    ),
    Line(
        "http-response-type",
        _HTTP,
        "Content-Type of the response MUST be the request's; success is 200, zero bytes in "
        "protobuf, `{}` in JSON",
    ),
    Line(
        "http-status-body",
        _HTTP,
        "The body of every 4xx and 5xx MUST be a `google.rpc.Status` in the request's encoding",
    ),
    Line("http-bad-data", _HTTP, "Not decodable: 400"),
    Line("http-too-large", _HTTP, "Over the limit: 413"),
    Line("http-media-type", _HTTP, "Unknown media type or content encoding: 415"),
    Line(
        "http-overload",
        _HTTP,
        "Overload: 503 with `Retry-After` of 1 second: never 0, never beyond a client's deadline",
    ),
    Line("http-gzip-members", _HTTP, "gzip of several members is read to its end"),
    Line("http-keep-alive", _HTTP, "Connections are kept alive"),
    Line(
        "http-disconnect",
        _HTTP,
        "A client that goes away in the middle does no harm, and may send again",
    ),
    Line("http-chunked", _HTTP, "Chunked bodies without Content-Length"),
    Line("http-expect", _HTTP, "`Expect: 100-continue`"),
    Line("json-keys", _JSON, "lowerCamelCase keys only; unknown keys are ignored"),
    Line(
        "json-ids",
        _JSON,
        "Ids are hexadecimal in either case, not base64; other bytes are base64",
    ),
    Line("json-enums", _JSON, "Enums are integers; names MUST NOT be used"),
    Line("json-int64", _JSON, "64-bit integers as text or number; written as text"),
    Line("json-doubles", _JSON, "NaN and the infinities as text"),
    Line(
        "clients",
        _BOTH,
        "The exporters of OpenTelemetry for Python (gRPC, protobuf, JSON) and JavaScript "
        "(gRPC, protobuf, JSON), and curl, are understood",
    ),
    Line(
        "default-settings",
        _BOTH,
        "An application with OpenTelemetry's standard settings sends all three signals "
        "without an error",
    ),
)


def conformance_table() -> str:
    """Write the table of collector/CONFORMANCE.md."""
    tests = claims("otlp")
    lines = ["| | line | over | tests |", "| --- | --- | --- | --- |"]
    for line in LINES:
        names = "<br>".join(f"`{name}`" for name in tests[line.id])
        result = "passes" if names else "**no test**"
        lines.append(f"| {result} | {line.text} | {line.where} | {names} |")
    return "\n".join(lines) + "\n"
