"""What all commands share that print rows: how an answer is shown, where, and when it is a failure.

`otelchain.cli.asking` adds where the rows come from.
"""

import sys
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from otelchain.cli.condition import Condition, ConditionError, parse_condition
from otelchain.cli.options import COLOR, FORMATS, format_option

if TYPE_CHECKING:
    from rich.console import Console

    from otelchain_collector.answer import Answer, ArrowAnswer

    #: Draws an answer for a screen, which is made when it is needed: it takes the package Rich.
    Drawing = Callable[[Answer, Callable[[], Console]], str]

#: Exit code when the rows are what the user wanted to fail on.
FAILED: Final = 1
_MORE_THAN_JSON: Final = frozenset({"parquet", "table", "csv", "markdown"})
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


OUTPUT: Final = click.Option(
    ["--output", "-o"],
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write into this file instead; without --format its ending says how (.csv, .json, "
    ".jsonl, .md, .parquet).",
)
FAIL_ON_ROWS: Final = click.Option(
    ["--fail-on-rows"], is_flag=True, help="Exit with 1 when there is a row."
)
_FAIL_IF: Final = click.Option(
    ["--fail-if"],
    callback=_condition,
    metavar="CONDITION",
    help="Exit with 1 when this holds for the rows, such as 'COUNT > 3' or "
    "'MAX(duration_ms) >= 5000 AND NOT SUM(errors) = 0'; also MIN, AVG, COUNT(column), OR and "
    "parentheses.",
)


def showing_options(
    first_format: str | None = None, *between: click.Option
) -> tuple[click.Option, ...]:
    """Return the options of a command that prints rows.

    Args:
        first_format: A format of the command's own, which becomes the default.
        between: More options, before those that say when to fail.
    """
    formats = FORMATS if first_format is None else (first_format, *FORMATS)
    no_pager = click.Option(
        ["--no-pager"], is_flag=True, help="Never show a long answer in a pager."
    )
    return (format_option(formats), OUTPUT, COLOR, no_pager, *between, FAIL_ON_ROWS, _FAIL_IF)


@dataclass(frozen=True)
class Showing:
    """How to show an answer, and when to fail."""

    format_name: str
    output: Path | None
    color: str
    no_pager: bool
    fail_on_rows: bool
    fail_if: Condition | None

    @classmethod
    def taken_from(cls, values: MutableMapping[str, Any]) -> "Showing":
        """Take the values of `showing_options` out of a command's values.

        Raises:
            click.UsageError: They do not go together.
        """
        format_name: str = values.pop("format_name")
        output: Path | None = values.pop("output")
        if output is not None and not is_given("format_name"):
            format_name = _FORMAT_OF.get(output.suffix.lower(), format_name)
        if format_name == "parquet" and output is None:
            raise click.UsageError("Parquet is no text; say with -o FILE where to write it")
        names = ("color", "no_pager", "fail_on_rows", "fail_if")
        return cls(format_name, output, **{name: values.pop(name) for name in names})

    @property
    def wants_arrow(self) -> bool:
        """Whether what is written says more than JSON can: types, NaN and infinities."""
        return self.format_name in _MORE_THAN_JSON

    def show(
        self,
        answer: "Answer | ArrowAnswer",
        more: str = "",
        drawings: "Mapping[str, Drawing] | None" = None,
    ) -> "Answer":
        """Print an answer, or write it into the file; return it with JSON values.

        Args:
            answer: The rows.
            more: How to get the rows that a limit cut off.
            drawings: How to show the formats that only this command has.
        """
        from otelchain.cli.output import remark
        from otelchain.cli.printing import print_text
        from otelchain.cli.written import write_text
        from otelchain_collector.answer import Answer

        if self.format_name == "parquet" and self.output is not None:
            from otelchain.cli.parquet import json_answer, write_parquet

            write_parquet(answer, self.output)
            answer = json_answer(answer)
        else:
            shown = answer
            if not isinstance(answer, Answer):
                from otelchain.cli.parquet import json_answer

                # Conditions get the same in every format.
                shown, answer = json_answer(answer, for_people=True), json_answer(answer)
            assert isinstance(shown, Answer)
            text = self.text(shown, drawings)
            if self.output is None:
                print_text(text, self.format_name, pages=not self.no_pager)
            else:
                write_text(text, self.output)
        remark(answer, self.format_name, more)
        return answer

    def text(self, answer: "Answer", drawings: "Mapping[str, Drawing] | None" = None) -> str:
        """Return the answer as it is shown where it goes to."""
        from otelchain.cli.output import answer_text

        if draw := (drawings or {}).get(self.format_name):
            return draw(answer, self._screen)
        on_terminal = self.output is None and sys.stdout.isatty()
        return answer_text(answer, self.format_name, self._screen, on_terminal=on_terminal)

    def _screen(self) -> "Console":
        from otelchain.reading.screen import console, unlimited

        if self.output is not None:
            return unlimited(colored=self.color == "always")
        return console(self.color)

    def fails(self, answer: "Answer") -> bool:
        """Tell whether it is one to fail on.

        Raises:
            ConditionError: The condition names a column that is not there, or holds no numbers.
        """
        if self.fail_on_rows and answer.rows:
            return True
        return self.fail_if is not None and self.fail_if.holds(answer)

    def end(self, answer: "Answer", *, failed: bool = False) -> None:
        """End the command with 1 if the answer is one to fail on, or the command has failed."""
        if self.fails(answer) or failed:
            click.get_current_context().exit(FAILED)


def is_given(name: str) -> bool:
    """Tell whether the user has set an option, on the command line or by its variable."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in {ParameterSource.DEFAULT, None}
