"""``otelchain query check``: is a query of the user's own what a query must be?"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otelchain.cli.options import with_options
from otelchain.cli.showing import Showing, showing_options

if TYPE_CHECKING:
    from otelchain_collector.answer import Answer, JSONValue

_COLUMNS: Final = (("file", "VARCHAR"), ("line", "BIGINT"), ("problem", "VARCHAR"))
_LINE: Final = re.compile(r":(?P<number>\d+): ")


@click.command("check", short_help="Check .sql files of your own.")
@with_options(
    click.Argument(
        ["files"], nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
    ),
    *showing_options("text"),
)
def check_command(files: tuple[Path, ...], **values: Any) -> None:
    """Check .sql files of your own: header, parameters, types, and the SQL on an empty database.

    Prints FILE:LINE and what is wrong, one mistake per line, and exits with 1 when there is one.

    \b
    Example:
      otelchain query check my-queries/*.sql
      otelchain query check my-queries/*.sql --format json
    """  # noqa: D301 - click reads the character \b
    from otelchain_collector.answer import Answer, Column
    from otelchain_collector.check_query import problems

    showing = Showing.taken_from(values)
    rows = [
        _row(str(file), problem) for file in files for problem in problems(_text(file), str(file))
    ]
    answer = Answer(tuple(Column(*column) for column in _COLUMNS), rows)
    showing.show(answer, drawings={"text": _lines})
    showing.end(answer, failed=bool(rows))


def _row(file: str, problem: str) -> "list[JSONValue]":
    """Take a problem, which reads ``FILE:LINE: what``, or ``FILE: what``, apart."""
    rest = problem.removeprefix(file)
    line = _LINE.match(rest)
    if line is None:
        return [file, None, rest.removeprefix(": ")]
    return [file, int(line["number"]), rest[line.end() :]]


def _lines(answer: "Answer", _: object) -> str:
    from otelchain.reading.visible import visible

    return "".join(
        f"{visible(f'{file}: {problem}' if line is None else f'{file}:{line}: {problem}')}\n"
        for file, line, problem in answer.rows
    )


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise click.UsageError(f"cannot read {str(file)!r}: {why}") from error
