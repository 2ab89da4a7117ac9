"""Command-line options that are moments, and the zone of those that name none."""

from dataclasses import dataclass
from datetime import datetime, timezone, tzinfo
from typing import TYPE_CHECKING, Any, Final

import click

from otelchain.cli.completing import time_zones
from otelchain.reading.times import EXAMPLES, SkippedHourError, to_utc
from otelchain.reading.zones import UnknownZoneError, zone_named

if TYPE_CHECKING:
    _ParamType = click.ParamType["Moment"]
else:  # Before click 8.4 it took no type.
    _ParamType = click.ParamType

_ZONE: Final = "otelchain.cli.times.zone"


def _keep_zone(ctx: click.Context, param: click.Parameter, name: str | None) -> None:
    try:
        ctx.meta[_ZONE] = timezone.utc if name is None else zone_named(name)
    except UnknownZoneError as error:
        raise click.BadParameter(str(error), ctx, param) from error


TIMEZONE: Final = click.Option(
    ["--timezone"],
    metavar="ZONE",
    envvar="OTELCHAIN_TIMEZONE",
    show_envvar=True,
    # Known before the times are read.
    is_eager=True,
    expose_value=False,
    shell_complete=time_zones,
    callback=_keep_zone,
    help="Zone of times that name none, such as Europe/Berlin; UTC unless given. Answers are in "
    "UTC.",
)


@dataclass(frozen=True)
class Moment:
    """A moment as it was typed; its text is UTC, and moves with now when it counts from now."""

    typed: str
    zone: tzinfo = timezone.utc

    def __str__(self) -> str:
        return to_utc(self.typed, datetime.now(timezone.utc), self.zone)


class Time(_ParamType):
    """A command-line option that is a moment."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Moment:
        """Return the moment."""
        if isinstance(value, Moment):
            return value
        moment = Moment(str(value), ctx.meta.get(_ZONE, timezone.utc) if ctx else timezone.utc)
        try:
            str(moment)
        except (UnknownZoneError, SkippedHourError) as error:
            self.fail(str(error), param, ctx)
        except ValueError:
            self.fail(f"{value!r} is not a time; examples: {EXAMPLES}", param, ctx)
        return moment
