"""The name of a time zone → the zone, or what may have been meant."""

from datetime import timezone, tzinfo
from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones


class UnknownZoneError(ValueError):
    """No time zone has that name."""

    def __init__(self, name: str) -> None:
        known = available_timezones()
        if not known:
            text = "this system has no list of time zones; install one with: pip install tzdata"
        else:
            near = get_close_matches(name.lower(), {zone.lower(): zone for zone in known}, 1)
            meant = [zone for zone in known if near and zone.lower() == near[0]]
            hint = f"did you mean {meant[0]!r}?" if meant else "for example 'Europe/Berlin'"
            text = f"no time zone is named {name!r}; {hint}"
        super().__init__(text)


def zone_named(name: str) -> tzinfo:
    """Return a zone of the IANA list, in any letter case; ``Z`` and ``UTC`` need no list.

    Raises:
        UnknownZoneError: There is none of that name.
    """
    if name.upper() in {"Z", "UTC"}:
        return timezone.utc
    try:
        return ZoneInfo(name)
    # A folder of zones, such as Europe, is an OSError.
    except (KeyError, ValueError, OSError):
        for known in available_timezones():
            if known.lower() == name.lower():
                return ZoneInfo(known)
        raise UnknownZoneError(name) from None
