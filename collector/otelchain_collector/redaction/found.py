"""What the collector had to remove: by rule and attribute, never the value (to the store)."""

from typing import NamedTuple


class Finding(NamedTuple):
    """How often one rule found something in one attribute of one record.

    Attributes:
        received_time_unix_nano: When the request came.
        signal: ``traces``, ``logs`` or ``metrics``.
        service_name: The resource's, redacted; None when it names none.
        scope_name: The instrumentation's, redacted.
        attribute: Key of the attribute, redacted, or the name of the field.
        rule: As it stands in the replacement.
        failed: The rule failed on the value, which was replaced as a whole.
        count: How often.
        trace_id: Hex; empty when the record has none. What stands in a resource or scope is
            counted with its first record.
        span_id: As trace_id.
        record_id: Of a log record or data point that came in the same request; None for spans, and
            where none of them can be stored.
    """

    received_time_unix_nano: int
    signal: str
    service_name: str | None
    scope_name: str
    attribute: str
    rule: str
    failed: bool
    count: int  # type: ignore[assignment]  # and a method of tuples
    trace_id: str
    span_id: str
    record_id: str | None = None
