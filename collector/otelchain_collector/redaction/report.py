"""What a policy finds in stored rows, summed up (from scan and rewrite, to the command)."""

from collections.abc import Iterable
from typing import NamedTuple

from otelchain_collector.answer import Answer, Column, JSONValue
from otelchain_collector.redaction.stored import Change, StoredColumn, rules_of

MAX_SPAN_IDS = 10


class _Place(NamedTuple):
    table: str
    column: str
    attribute: str
    rule: str
    failed: bool


class Report:
    """Counts findings by place and rule."""

    def __init__(self) -> None:
        self._counts: dict[_Place, int] = {}
        self._rows: dict[_Place, int] = {}
        self._span_ids: dict[_Place, dict[str, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, changes: Iterable[tuple[StoredColumn, Change]], span_id: str | None) -> None:
        """Take over what was found in one row."""
        seen: set[_Place] = set()
        for column, change in changes:
            for attribute, rule, failed, count in rules_of(change):
                place = _Place(column.table, column.name, attribute, rule, failed)
                self._counts[place] = self._counts.get(place, 0) + count
                seen.add(place)
        for place in seen:
            self._rows[place] = self._rows.get(place, 0) + 1
            ids = self._span_ids.setdefault(place, {})
            if span_id and len(ids) < MAX_SPAN_IDS:
                ids[span_id] = None

    def answer(self) -> Answer:
        """Return the report as rows, most findings first."""
        columns = (
            Column("table", "VARCHAR"),
            Column("column", "VARCHAR"),
            Column("attribute", "VARCHAR"),
            Column("rule", "VARCHAR"),
            Column("failed", "BOOLEAN"),
            Column("count", "BIGINT"),
            Column("rows", "BIGINT"),
            Column("span_ids", "VARCHAR[]"),
        )
        places = sorted(self._counts, key=lambda place: (-self._counts[place], place))
        rows: list[list[JSONValue]] = [
            [*place, self._counts[place], self._rows[place], list(self._span_ids[place])]
            for place in places
        ]
        return Answer(columns, rows, has_more=False)
