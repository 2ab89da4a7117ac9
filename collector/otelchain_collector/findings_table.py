"""Table ``redaction_findings``: what redaction took out, written with the records it came with.

A finding counts when its record is stored for the first time; so the statements run in the
transaction of the records, before them. They read the store's ``batch`` and ``findings``.
"""

from collections.abc import Sequence

import pyarrow as pa

from otelchain_collector.redaction.found import Finding

_COLUMNS = pa.schema(
    [
        ("received_time_unix_nano", pa.int64()),
        ("signal", pa.string()),
        ("service_name", pa.string()),
        ("scope_name", pa.string()),
        ("attribute", pa.string()),
        ("rule", pa.string()),
        ("failed", pa.bool_()),
        ("count", pa.int64()),
        ("trace_id", pa.string()),
        ("span_id", pa.string()),
        ("record_id", pa.string()),
    ]
)
_INSERT = """
INSERT INTO redaction_findings BY NAME
SELECT
    max(received_time_unix_nano) AS received_time_unix_nano,
    signal,
    service_name,
    scope_name,
    attribute,
    rule,
    failed,
    sum(count)::BIGINT AS count,
    -- of one record
    arg_max(trace_id, (trace_id, span_id)) AS trace_id,
    arg_max(span_id, (trace_id, span_id)) AS span_id
FROM findings
WHERE {condition}
GROUP BY ALL
"""
_SPANS = """
(trace_id, span_id) IN (
    SELECT (trace_id, span_id)
    FROM batch
    ANTI JOIN (
        SELECT trace_id, span_id, start_time_unix_nano FROM spans
        WHERE start_time_unix_nano BETWEEN {first} AND {last}
        {pending}
    ) AS stored USING (trace_id, span_id, start_time_unix_nano)
)
"""
_PENDING = """UNION ALL
        SELECT trace_id, span_id, start_time_unix_nano FROM pending_spans
        WHERE start_time_unix_nano BETWEEN {first} AND {last}"""
_IDENTIFIED = """
record_id IN (SELECT record_id FROM batch) AND record_id NOT IN ({stored})
"""
# Those of requests of which nothing can be stored, and of spans that cannot.
_REJECTED = """
record_id IS NULL AND (
    signal <> 'traces' OR (trace_id, span_id) IN (
        SELECT (coalesce(trace_id, ''), coalesce(span_id, '')) FROM batch
    )
)
"""


def findings_table(findings: Sequence[Finding]) -> pa.Table:
    """Return what the statements below read as ``findings``."""
    columns = zip(*findings, strict=True)
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, _COLUMNS, strict=True)],
        schema=_COLUMNS,
    )


def of_spans(first: int, last: int, *, pending: bool = False) -> str:
    """Return the statement for spans of ``batch``, which started between these times.

    Args:
        first: In nanoseconds since 1970.
        last: As first.
        pending: They are runs that have started.
    """
    known = _PENDING.format(first=first, last=last) if pending else ""
    return _INSERT.format(condition=_SPANS.format(first=first, last=last, pending=known))


def of_identified(stored: str) -> str:
    """Return the statement for log records or data points; ``stored`` selects the ids stored."""
    return _INSERT.format(condition=_IDENTIFIED.format(stored=stored))


OF_REJECTED = _INSERT.format(condition=_REJECTED)
