"""A cursor over runs in the order in which the collector received them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from otelchain.reading.times import unix_nano, utc_text
from otelchain_queries import Query

if TYPE_CHECKING:
    from otelchain.reading.run_line import Run
    from otelchain.reading.source import Source

# Requests are stamped when they come and committed in the order of the queue; decoding may change
# that order by less than this.
_OVERLAP_NANO: Final = 5 * 10**9
_PAGE_ROWS: Final = 10_000

_Key = tuple[str, str, bool]


class Arrivals:
    """Runs that have arrived since it was asked last; every run once, a pending one twice.

    Args:
        query: The query ``arrivals``.
        filters: Values of its parameters that narrow it.
    """

    def __init__(self, query: Query, filters: Mapping[str, str]) -> None:
        self._query = query
        self._filters = dict(filters)
        self._after_nano = 0
        self._page_rows = _PAGE_ROWS
        # When each run was received that a question may meet again.
        self._seen: dict[_Key, int] = {}
        #: More had arrived than one answer takes: ask again at once.
        self.behind = False

    def newest(self, source: "Source", count: int) -> "list[Run]":
        """Return the newest runs, oldest first; `new` goes on after them."""
        for run in self._ask(source, {"newest_first": "true", "limit": "1"}).rows:
            self._after_nano = max(run.received_nano - _OVERLAP_NANO, 0)
        self.new(source)
        while self.behind:
            self.new(source)
        values = {**self._filters, "newest_first": "true", "limit": str(count)}
        page = self._ask(source, values)
        self._seen |= {run.key: run.received_nano for run in page.rows}
        return [run.columns for run in reversed(page.rows)]

    def new(self, source: "Source") -> "list[Run]":
        """Return the runs that have arrived since."""
        after = {"after": utc_text(self._after_nano), "limit": str(self._page_rows)}
        page = self._ask(source, {**self._filters, **after})
        found = [run.columns for run in page.rows if run.key not in self._seen]
        self.behind = page.has_more
        if page.rows:
            self._pass(page.rows)
        return found

    def _pass(self, rows: "Sequence[_Arrived]") -> None:
        """Move on behind these rows, as far as nothing can come before them any more."""
        newest_nano = rows[-1].received_nano
        if self.behind and newest_nano == self._after_nano:
            self._page_rows *= 2  # One request with more runs than a page has rows.
        self._after_nano = newest_nano if self.behind else max(newest_nano - _OVERLAP_NANO, 0)
        self._seen |= {run.key: run.received_nano for run in rows}
        self._seen = {key: nano for key, nano in self._seen.items() if nano >= self._after_nano}

    def _ask(self, source: "Source", values: Mapping[str, str]) -> "_Page":
        answer = source.query(self._query, values)
        names = [column.name for column in answer.columns]
        rows = [_Arrived(dict(zip(names, row, strict=True))) for row in answer.rows]
        return _Page(rows, answer.has_more)


class _Arrived:
    def __init__(self, columns: "Run") -> None:
        self.columns = columns
        self.key = (columns["trace_id"], columns["span_id"], columns["status"] == "pending")
        self.received_nano = unix_nano(columns["received_time"])


class _Page(NamedTuple):
    rows: list[_Arrived]
    has_more: bool
