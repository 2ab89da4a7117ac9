"""What all commands share that ask a store: the way from a question to the answer that is shown."""

import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from otelchain.cli.place import PLACE, Place
from otelchain.cli.showing import FAILED, Showing, showing_options
from otelchain.reading.visible import visible

if TYPE_CHECKING:
    from otelchain.cli.showing import Drawing
    from otelchain.reading.source import Source
    from otelchain_collector.answer import Answer, ArrowAnswer
    from otelchain_queries import Query

_DEFAULT_WATCH_SECONDS: Final = 2.0
_WATCH: Final = click.Option(
    ["--watch"],
    is_flag=False,
    flag_value=_DEFAULT_WATCH_SECONDS,
    type=click.FloatRange(min=0.1),
    metavar="[SECONDS]",
    help="Ask again and again, every 2 seconds unless said, until Ctrl-C or until the "
    "command fails; put it last, or write --watch=5. A file without a collector is read again "
    "when it has changed.",
)


def asking_options(first_format: str | None = None) -> tuple[click.Option, ...]:
    """Return the options of a command that asks a store for rows.

    Args:
        first_format: A format of the command's own, which becomes the default.
    """
    return (*showing_options(first_format, _WATCH), *PLACE)


@dataclass(frozen=True)
class Question:
    """What is asked, of whichever source there is; more on `otelchain.reading.source.Source`.

    Args:
        answer: Asks it.
        arrow: Asks it for DuckDB's types; without, the answer is all there is.
    """

    answer: "Callable[[Source], Answer]"
    arrow: "Callable[[Source], Answer | ArrowAnswer] | None" = None


def named(query: "Query", values: Callable[[], Mapping[str, str]]) -> Question:
    """Return a named query as a question; the values are taken anew whenever it is asked."""
    from otelchain.reading.whole_id import with_whole_id

    return Question(
        lambda source: source.query(query, with_whole_id(source, query, values())),
        lambda source: source.query_arrow(query, with_whole_id(source, query, values())),
    )


def statement(sql: str, max_rows: int) -> Question:
    """Return one SELECT as a question."""
    return Question(
        lambda source: source.sql(sql, max_rows), lambda source: source.sql_arrow(sql, max_rows)
    )


@dataclass(frozen=True)
class Asking:
    """Where to ask, how often, and how to show the answer."""

    place: Place
    showing: Showing
    watch: float | None

    @classmethod
    def taken_from(cls, values: MutableMapping[str, Any]) -> "Asking":
        """Take the values of `asking_options` out of a command's values.

        Raises:
            click.UsageError: They do not go together.
        """
        watch: float | None = values.pop("watch")
        showing = Showing.taken_from(values)
        if showing.output is not None and watch is not None:
            raise click.UsageError("--watch prints again and again; leave out -o")
        return cls(Place.taken_from(values), showing, watch)

    def answer(
        self,
        question: Question,
        more: str = "",
        drawings: "Mapping[str, Drawing] | None" = None,
    ) -> None:
        """Ask, show the answer, and end with 1 if it is one to fail on.

        Args:
            question: What to ask.
            more: How to get the rows that a limit cut off.
            drawings: How to show the formats that only this command has.
        """
        if self.watch is None:
            failed = self._once(question, more, drawings)
        else:
            failed = self._again_and_again(self.watch, question, more, drawings)
        if failed:
            click.get_current_context().exit(FAILED)

    def _once(
        self, question: Question, more: str, drawings: "Mapping[str, Drawing] | None"
    ) -> bool:
        from otelchain.cli.waiting import waiting
        from otelchain.reading.opening import open_source

        ask = question.arrow if question.arrow and self.showing.wants_arrow else question.answer
        with waiting("waiting for the answer"), open_source(self.place).held() as source:
            answer = ask(source)
        return self.showing.fails(self.showing.show(answer, more, drawings))

    def _again_and_again(
        self,
        seconds: float,
        question: Question,
        more: str,
        drawings: "Mapping[str, Drawing] | None",
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
                    click.echo(visible(f"{error}; asking again"), err=True)
                time.sleep(seconds)
        except KeyboardInterrupt:
            return False

    def _shown(
        self,
        source: "Source",
        question: Question,
        more: str,
        drawings: "Mapping[str, Drawing] | None",
    ) -> bool:
        """Show the answer of now in place of the one before, and tell whether to fail on it."""
        from otelchain.cli.output import remark
        from otelchain.cli.printing import print_screen

        with source.held():
            answer = question.answer(source)
        print_screen(self.showing.text(answer, drawings), self.showing.format_name)
        remark(answer, self.showing.format_name, more)
        return self.showing.fails(answer)
