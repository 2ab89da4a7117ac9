"""OTLP requests written byte by byte, for what protobuf itself refuses to write."""

from otlp_requests import field, text

#: Field numbers of the kinds of metrics.proto.
GAUGE, HISTOGRAM = 5, 9


def protobuf_request(signal: str, service: str, *records: bytes, kind: int = GAUGE) -> bytes:
    """Write a request of records; for metrics they are data points of one metric."""
    resource = field(1, field(1, text("service.name", service).SerializeToString()))
    if signal == "metrics":
        points = b"".join(field(1, record) for record in records)
        scope = field(2, field(1, b"load") + field(kind, points))
    else:
        scope = b"".join(field(2, record) for record in records)
    return field(1, resource + field(2, scope))
