"""Filters over the view ``runs`` → SELECTs whose values are all parameters, a page each.

Pages go on after the last run of the page before, by its start time and ids: what arrives meanwhile
moves no run from one page to another, as an offset would.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from otelchain.reading.parameters import time_text
from otelchain_queries import Param, Query

# Payload is read only when it is asked for by name; the rest is there in other columns.
_LEFT_OUT: Final = "inputs, outputs, row_id, start_time_unix_nano, end_time_unix_nano"


class Cursor(NamedTuple):
    """The last run of a page; `CURSOR_COLUMNS` in its row."""

    start_time_unix_nano: int
    trace_id: str
    span_id: str


#: What every page has after the columns that were asked for.
CURSOR_COLUMNS: Final = Cursor._fields
_ORDER: Final = "ORDER BY start_time_unix_nano DESC, trace_id, span_id"
_AFTER: Final = """start_time_unix_nano <= $after_start::BIGINT AND NOT (
    start_time_unix_nano = $after_start::BIGINT
    AND (trace_id, span_id) <= ($after_trace, $after_span)
)"""


@dataclass(frozen=True)
class RunsQuestion:
    """Which runs, newest first, and what of them.

    Args:
        conditions: In SQL.
        values: Of the parameters in the conditions.
        columns: Of the view ``runs``; None for all but payload.
    """

    conditions: tuple[str, ...]
    values: Mapping[str, str]
    columns: tuple[str, ...] | None

    @classmethod
    def of(
        cls,
        filters: Mapping[str, "str | Sequence[str] | None"],
        *,
        since: Any,
        until: Any,
        columns: Sequence[str] | None,
    ) -> "RunsQuestion":
        """Return the question; a time ago counts from now, for all pages alike.

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
                conditions.append(
                    f"start_time_unix_nano {comparison} epoch_ns(${name}::TIMESTAMP_NS)"
                )
        return cls(tuple(conditions), values, None if columns is None else tuple(columns))

    def page(self, limit: int, after: Cursor | None) -> tuple[Query, dict[str, str]]:
        """Return the query of one page and the values of its parameters."""
        conditions, values = list(self.conditions), {**self.values, "limit": str(limit)}
        if after is not None:
            conditions.append(_AFTER)
            values |= {
                "after_start": str(after.start_time_unix_nano),
                "after_trace": after.trace_id,
                "after_span": after.span_id,
            }
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        chosen = ", ".join(map(_quoted, self.columns or ())) or f"* EXCLUDE ({_LEFT_OUT})"
        cursor = ", ".join(f"runs.{name}" for name in CURSOR_COLUMNS)
        # The rows first, by their small columns; then what is shown of them.
        sql = " ".join(
            (
                f"WITH picked AS (SELECT row_id FROM runs {where}",  # noqa: S608 - values are parameters
                f"{_ORDER} LIMIT $limit::BIGINT)",
                f"SELECT {chosen}, {cursor}",
                f"FROM picked JOIN runs USING (row_id) {_ORDER}",
            )
        )
        return Query(
            "runs()", "", "", "", tuple(Param(name, "", "") for name in values), sql
        ), values


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
