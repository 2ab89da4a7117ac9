"""What all commands share that print rows: options, and the way from a question to its answer."""

import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from otelchain.cli.condition import Condition, ConditionError, parse_condition
from otelchain.cli.options import FORMATS, format_option
from otelchain.cli.place import PLACE, Place

if TYPE_CHECKING:
    from rich.console import Console

    from otelchain.reading.source import Source
    from otelchain_collector.answers import Answer, ArrowAnswer
    from otelchain_queries import Query

    #: Draws an answer for a screen.
    Drawing = Callable[[Answer, Console], str]

_FAILED: Final = 1
_DEFAULT_WATCH_SECONDS: Final = 2.0
_FORMAT_OF: Final = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".md": "markdown",
    ".parquet": "parquet",
}


def _condition(ctx: click.Context, param: click.Parameter, text: str | None) -> Condition | None:
    try:
        return None if text is None else parse_condition(text)
    except ConditionError as error:
        raise click.BadParameter(str(error), ctx, param) from error


_OPTIONS: Final = (
    click.Option(
        ["--output", "-o"],
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write into this file instead; without --format its ending says how (.csv, .json, "
        ".jsonl, .md, .parquet).",
    ),
    click.Option(["--no-pager"], is_flag=True, help="Never show a long answer in a pager."),
    click.Option(
        ["--watch"],
        is_flag=False,
        flag_value=_DEFAULT_WATCH_SECONDS,
        type=click.FloatRange(min=0.1),
        metavar="[SECONDS]",
        help="Ask again and again, every 2 seconds unless said, until Ctrl-C or until the "
        "command fails; put it last, or write --watch=5. A file without a collector is read again "
        "when it has changed.",
    ),
    click.Option(["--fail-on-rows"], is_flag=True, help="Exit with 1 when there is a row."),
    click.Option(
        ["--fail-if"],
        callback=_condition,
        metavar="CONDITION",
        help="Exit with 1 when this holds for the rows, such as 'COUNT > 3' or "
        "'MAX(duration_ms) >= 5000 AND NOT SUM(errors) = 0'; also MIN, AVG, COUNT(column), OR and "
        "parentheses.",
    ),
)


def asking_options(first_format: str | None = None) -> tuple[click.Option, ...]:
    """Return the options of a command that prints rows.

    Args:
        first_format: A format of the command's own, which becomes the default.
    """
    formats = FORMATS if first_format is None else (first_format, *FORMATS)
    return (format_option(formats), *_OPTIONS, *PLACE)


@dataclass(frozen=True)
class Question:
    """What is asked, of whichever source there is; more on `otelchain.reading.source.Source`."""

    answer: "Callable[[Source], Answer]"
    arrow: "Callable[[Source], ArrowAnswer]"


def named(query: "Query", values: Callable[[], Mapping[str, str]]) -> Question:
    """Return a named query as a question; the values are taken anew whenever it is asked."""
    return Question(
        lambda source: source.query(query, values()),
        lambda source: source.query_arrow(query, values()),
    )


def statement(sql: str, max_rows: int) -> Question:
    """Return one SELECT as a question."""
    return Question(
        lambda source: source.sql(sql, max_rows), lambda source: source.sql_arrow(sql, max_rows)
    )


@dataclass(frozen=True)
class Asking:
    """Where to ask, how to show the answer, and when to fail."""

    place: Place
    format_name: str
    output: Path | None
    no_pager: bool
    watch: float | None
    fail_on_rows: bool
    fail_if: Condition | None

    @classmethod
    def taken_from(cls, values: MutableMapping[str, Any]) -> "Asking":
        """Take the values of `asking_options` out of a command's values.

        Raises:
            click.UsageError: They do not go together.
        """
        format_name: str = values.pop("format_name")
        output: Path | None = values.pop("output")
        watch: float | None = values.pop("watch")
        if output is not None and not _is_given("format_name"):
            format_name = _FORMAT_OF.get(output.suffix.lower(), format_name)
        if format_name == "parquet" and output is None:
            raise click.UsageError("Parquet is no text; say with -o FILE where to write it")
        if output is not None and watch is not None:
            raise click.UsageError("--watch prints again and again; leave out -o")
        rest = {name: values.pop(name) for name in ("no_pager", "fail_on_rows", "fail_if")}
        place = Place.taken_from(values)
        return cls(place, format_name, output, watch=watch, **rest)

    def answer(
        self,
        question: Question,
        more: str,
        drawings: "Mapping[str, Drawing] | None" = None,
    ) -> None:
        """Ask, show the answer, and end with 1 if it is one to fail on.

        Args:
            question: What to ask.
            more: How to get the rows that a limit cut off.
            drawings: How to show the formats that only this command has.
        """
        if self.watch is None:
            failed = self._once(question, more, drawings or {})
        else:
            failed = self._again_and_again(self.watch, question, more, drawings or {})
        if failed:
            click.get_current_context().exit(_FAILED)

    def _once(self, question: Question, more: str, drawings: "Mapping[str, Drawing]") -> bool:
        from otelchain.cli.output import remark
        from otelchain.cli.printing import print_text
        from otelchain.cli.written import write_parquet, write_text

        if self.format_name == "parquet" and self.output is not None:
            answer = write_parquet(self._ask(question.arrow), self.output)
        else:
            answer = self._ask(question.answer)
            on_terminal = self.output is None and sys.stdout.isatty()
            text = self._text(answer, drawings, on_terminal)
            if self.output is None:
                print_text(text, self.format_name, pages=not self.no_pager)
            else:
                write_text(text, self.output)
        remark(answer, self.format_name, more)
        return self._fails(answer)

    def _again_and_again(
        self, seconds: float, question: Question, more: str, drawings: "Mapping[str, Drawing]"
    ) -> bool:
        from otelchain.reading.following import Following
        from otelchain.reading.source import SourceError

        following = Following(self.place)
        asked = False
        try:
            while True:
                try:
                    if following.ask(lambda source: self._shown(source, question, more, drawings)):
                        return True
                    asked = True
                except SourceError as error:
                    # A collector that starts anew is back soon; a wrong address was never there.
                    if not asked:
                        raise
                    click.echo(f"{error}; asking again", err=True)
                time.sleep(seconds)
        except KeyboardInterrupt:
            return False

    def _shown(
        self, source: "Source", question: Question, more: str, drawings: "Mapping[str, Drawing]"
    ) -> bool:
        """Show the answer of now in place of the one before, and tell whether to fail on it."""
        from otelchain.cli.output import remark
        from otelchain.cli.printing import print_screen

        answer = question.answer(source)
        text = self._text(answer, drawings, sys.stdout.isatty())
        print_screen(text, self.format_name)
        remark(answer, self.format_name, more)
        return self._fails(answer)

    def _ask(self, ask: "Callable[[Source], Any]") -> Any:
        from otelchain.cli.waiting import waiting
        from otelchain.reading.source import open_source

        with waiting("waiting for the answer"):
            return ask(open_source(self.place))

    def _text(self, answer: "Answer", drawings: "Mapping[str, Drawing]", on_terminal: bool) -> str:
        from otelchain.cli.output import answer_text

        if draw := drawings.get(self.format_name):
            from otelchain.reading.screen import console, unlimited

            return draw(answer, console() if on_terminal else unlimited())
        return answer_text(answer, self.format_name, on_terminal=on_terminal)

    def _fails(self, answer: "Answer") -> bool:
        if self.fail_on_rows and answer.rows:
            return True
        return self.fail_if is not None and self.fail_if.holds(answer)


def _is_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source not in {ParameterSource.DEFAULT, None}
