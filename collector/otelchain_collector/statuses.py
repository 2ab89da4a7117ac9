"""What a client is told: the words of OTLP and google.rpc that both transports share."""

from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo

from otelchain_collector.writer import Outcome

# Python's exporter gives up when it is told to wait longer than its total timeout of 10 s allows,
# and sends six times at once when told 0.
RETRY_AFTER_SECONDS = 1
RETRY_INFO = RetryInfo(retry_delay=Duration(seconds=RETRY_AFTER_SECONDS))

#: For the two signals that applications with standard settings also send; see receive_http.
NOT_STORED = (
    "otelchain stores traces, not {signal}; set {variable}=none in the application, or send "
    "{signal} to another collector"
)
OTHER_SIGNALS = {
    "logs": NOT_STORED.format(signal="logs", variable="OTEL_LOGS_EXPORTER"),
    "metrics": NOT_STORED.format(signal="metrics", variable="OTEL_METRICS_EXPORTER"),
}
_MAX_MESSAGE_CHARS = 2_000


def partial_success_message(outcome: Outcome) -> str:
    """Say which spans were rejected and why, short enough for any client."""
    text = f"{outcome.rejected} spans rejected: " + "; ".join(outcome.reasons)
    return text[:_MAX_MESSAGE_CHARS]
