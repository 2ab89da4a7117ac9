"""SQL that somebody wrote, with what belongs to it: as it comes over HTTP and goes to a process."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import duckdb

from otelchain_collector.answers import AnyAnswer, Form, answer_query, answer_sql
from otelchain_queries import Param, Query

#: What a process that answers says before it is asked.
READY: Final = b"ready\n"


@dataclass(frozen=True)
class AskedSql:
    """One statement.

    Attributes:
        sql: The statement.
        max_rows: Most rows in the answer.
        offset: Rows to leave out at the start.
        params: Text for each parameter; None when it has none and may be EXPLAIN.
        name: What errors about parameters call it.
    """

    sql: str
    max_rows: int
    offset: int = 0
    params: Mapping[str, str] | None = None
    name: str = "sql"

    def answer(
        self, connection: duckdb.DuckDBPyConnection, max_seconds: float, form: Form[AnyAnswer]
    ) -> AnyAnswer:
        """Ask; raises as `answer_sql` and `answer_query` do."""
        if self.params is None:
            return answer_sql(
                connection,
                self.sql,
                max_rows=self.max_rows,
                offset=self.offset,
                max_seconds=max_seconds,
                form=form,
            )
        # A query that the collector does not have: one of the user's own.
        params = tuple(Param(param, default, "") for param, default in self.params.items())
        return answer_query(
            connection,
            Query(self.name, "", "", "", params, self.sql),
            self.params,
            max_rows=self.max_rows,
            offset=self.offset,
            max_seconds=max_seconds,
            form=form,
        )
