"""Filters over the view ``runs`` → one SELECT whose values are all parameters."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from otelchain.reading.parameters import time_text
from otelchain_queries import Param, Query

# Payload is read only when it is asked for by name; the rest is there in other columns.
_LEFT_OUT: Final = "inputs, outputs, row_id, start_time_unix_nano, end_time_unix_nano"


def runs_question(
    filters: Mapping[str, "str | Sequence[str] | None"],
    *,
    since: Any,
    until: Any,
    columns: Sequence[str] | None,
    limit: int,
) -> tuple[Query, dict[str, str]]:
    """Return the question and the values of its parameters.

    Raises:
        ParameterError: A time is none.
    """
    values = {
        column: json.dumps([wanted] if isinstance(wanted, str) else list(wanted))
        for column, wanted in filters.items()
        if wanted is not None
    }
    conditions = [
        f"list_contains(from_json(${column}, '[\"VARCHAR\"]'), {column})" for column in values
    ]
    for name, comparison, moment in (("since", ">=", since), ("until", "<", until)):
        if moment is not None:
            values[name] = time_text(name, moment)
            conditions.append(f"start_time_unix_nano {comparison} epoch_ns(${name}::TIMESTAMP_NS)")
    values["limit"] = str(limit)
    chosen = [_quoted(column) for column in columns or ()]
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    # The rows first, by their small columns; then what is shown of them.
    sql = " ".join(
        (
            f"WITH picked AS (SELECT row_id FROM runs {where}",  # noqa: S608 - values are parameters
            "ORDER BY start_time_unix_nano DESC, trace_id, span_id LIMIT $limit::BIGINT)",
            f"SELECT {', '.join(chosen) or f'* EXCLUDE ({_LEFT_OUT})'}",
            "FROM picked JOIN runs USING (row_id)",
            "ORDER BY start_time_unix_nano DESC, trace_id, span_id",
        )
    )
    params = tuple(Param(name, "", "") for name in values)
    return Query("runs()", "", "", "", params, sql), values


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
