"""``otelchain query check``: is a query of the user's own what a query must be?"""

from pathlib import Path

import click


@click.command("check", short_help="Check .sql files of your own.")
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
)
@click.pass_context
def check_command(ctx: click.Context, files: tuple[Path, ...]) -> None:
    """Check .sql files of your own: header, parameters, types, and the SQL on an empty database.

    Prints FILE:LINE and what is wrong, one mistake per line, and exits with 1 when there is one.

    \b
    Example:
      otelchain query check my-queries/*.sql
    """  # noqa: D301 - click reads the character \b
    from otelchain.reading.visible import visible
    from otelchain_collector.check_query import problems

    found = [problem for file in files for problem in problems(_text(file), str(file))]
    for problem in found:
        click.echo(visible(problem))
    ctx.exit(1 if found else 0)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise click.UsageError(f"cannot read {str(file)!r}: {why}") from error
