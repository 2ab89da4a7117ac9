"""What a client is told: the words of OTLP and google.rpc that both transports share."""

from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo

from otelchain_collector.signals import Signal
from otelchain_collector.writer import Outcome

# Python's exporter gives up when it is told to wait longer than its total timeout of 10 s allows,
# and sends six times at once when told 0.
RETRY_AFTER_SECONDS = 1
RETRY_INFO = RetryInfo(retry_delay=Duration(seconds=RETRY_AFTER_SECONDS))

_MAX_MESSAGE_CHARS = 2_000


def success(signal: Signal, outcome: Outcome) -> Any:
    """Return the Export…ServiceResponse: empty, or how many records were rejected and why.

    Short enough for any client.
    """
    response: Any = signal.response()
    if outcome.rejected:
        text = f"{outcome.rejected} {signal.noun}s rejected: " + "; ".join(outcome.reasons)
        partial = response.partial_success
        setattr(partial, signal.rejected_field, outcome.rejected)
        partial.error_message = text[:_MAX_MESSAGE_CHARS]
    return response
