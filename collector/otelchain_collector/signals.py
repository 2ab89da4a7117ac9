"""What tells OTLP's signals apart: messages, names and words (for both receivers and parsers).

Everything else is the same for all: a request has resources, a resource has scopes, a scope has
records, each with the same field numbers. Only the records of metrics are not what is stored: that
are the data points in them.
"""

from dataclasses import dataclass

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

_PACKAGE = "opentelemetry.proto.collector"


@dataclass(frozen=True)
class Signal:
    """One signal.

    Attributes:
        name: As in the path ``/v1/traces``.
        noun: What one row of it is called.
        service: The full name of its gRPC service.
        request: Its Export…ServiceRequest.
        response: Its Export…ServiceResponse.
        rejected_field: The field of the partial success that counts rejected records.
        resources: Field of the request that holds the resources.
        scopes: Field of a resource that holds the scopes.
        records: Field of a scope that holds the records.
        head: Field numbers of a record by which a rejected one can be recognised.
    """

    name: str
    noun: str
    service: str
    request: type[Message]
    response: type[Message]
    rejected_field: str
    resources: str
    scopes: str
    records: str
    head: dict[str, int]

    @property
    def path(self) -> str:
        """Where HTTP clients send it."""
        return f"/v1/{self.name}"

    @property
    def paths(self) -> tuple[str, str]:
        """Where it is taken.

        The second is what an exporter uses whose base endpoint already names the first.
        """
        return self.path, self.path * 2


TRACES = Signal(
    name="traces",
    noun="span",
    service=f"{_PACKAGE}.trace.v1.TraceService",
    request=trace_service_pb2.ExportTraceServiceRequest,
    response=trace_service_pb2.ExportTraceServiceResponse,
    rejected_field="rejected_spans",
    resources="resource_spans",
    scopes="scope_spans",
    records="spans",
    head={"trace_id": 1, "span_id": 2, "name": 5},
)
LOGS = Signal(
    name="logs",
    noun="log record",
    service=f"{_PACKAGE}.logs.v1.LogsService",
    request=logs_service_pb2.ExportLogsServiceRequest,
    response=logs_service_pb2.ExportLogsServiceResponse,
    rejected_field="rejected_log_records",
    resources="resource_logs",
    scopes="scope_logs",
    records="log_records",
    head={"trace_id": 9, "span_id": 10, "name": 12},
)
METRICS = Signal(
    name="metrics",
    noun="data point",
    service=f"{_PACKAGE}.metrics.v1.MetricsService",
    request=metrics_service_pb2.ExportMetricsServiceRequest,
    response=metrics_service_pb2.ExportMetricsServiceResponse,
    rejected_field="rejected_data_points",
    resources="resource_metrics",
    scopes="scope_metrics",
    records="metrics",
    head={"name": 1},
)
SIGNALS = (TRACES, LOGS, METRICS)
#: The kinds of data that a metric can have, by their field numbers.
METRIC_KINDS = {"gauge": 5, "sum": 7, "histogram": 9, "exponential_histogram": 10, "summary": 11}
