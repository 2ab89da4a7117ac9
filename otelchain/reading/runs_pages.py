"""A question about runs → one Arrow table of any length, read page by page."""

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from otelchain.reading.frames import table
from otelchain.reading.runs_question import CURSOR_COLUMNS, Cursor, RunsQuestion
from otelchain_collector.answer import TOO_LARGE, ArrowAnswer, QueryFailed

if TYPE_CHECKING:
    from otelchain.reading.source import Source

# Without payload 50,000 runs are some 20 MB, of the 64 MiB that an answer may have.
_PAGE_ROWS: Final = 50_000


def runs_table(source: "Source", question: RunsQuestion, limit: int) -> tuple[pa.Table, bool]:
    """Return the newest runs, and whether there are more than the limit.

    Raises:
        SourceError: Nobody can be asked.
        QueryFailed: The question is wrong, or one run is too large for an answer.
    """
    pages: list[pa.Table] = []
    page_rows, left = _PAGE_ROWS, limit
    after: Cursor | None = None
    while True:
        rows = min(page_rows, left)
        try:
            answer = _ask(source, question, rows, after)
        except QueryFailed as error:
            if not str(error).startswith(TOO_LARGE) or rows <= 1:
                raise
            page_rows = rows // 2
            continue
        page = table(answer)
        pages.append(page)
        left -= page.num_rows
        if not answer.has_more or left <= 0:
            asked_for = range(page.num_columns - len(CURSOR_COLUMNS))
            return pa.concat_tables(pages).select(list(asked_for)), answer.has_more
        after = Cursor(*(page.column(place)[-1].as_py() for place in _cursor_places(page)))


def _ask(source: "Source", question: RunsQuestion, rows: int, after: Cursor | None) -> ArrowAnswer:
    return source.query_arrow(*question.page(rows, after))


def _cursor_places(page: pa.Table) -> range:
    return range(page.num_columns - len(CURSOR_COLUMNS), page.num_columns)
