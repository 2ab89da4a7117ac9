"""A command-line option that is a moment."""

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from otelchain.reading.times import EXAMPLES, to_utc

if TYPE_CHECKING:
    _ParamType = click.ParamType["Moment"]
else:  # Before click 8.4 it took no type.
    _ParamType = click.ParamType


@dataclass(frozen=True)
class Moment:
    """A moment as it was typed; its text is UTC, and moves with now when it counts from now."""

    typed: str

    def __str__(self) -> str:
        return to_utc(self.typed, datetime.now(timezone.utc))


class Time(_ParamType):
    """A command-line option that is a moment."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Moment:
        """Return the moment."""
        moment = Moment(str(value.typed if isinstance(value, Moment) else value))
        try:
            str(moment)
        except ValueError:
            self.fail(f"{value!r} is not a time; examples: {EXAMPLES}", param, ctx)
        return moment
