"""What is kept, and for how long."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from otelchain_collector.errors import CollectorError
from otelchain_collector.settings import CollectorSettings, parse_age


@dataclass(frozen=True)
class RetentionRules:
    """What is kept.

    Attributes:
        age_seconds: How long after its arrival; None for ever.
        max_bytes: How much, as `OpenDatabase.live_bytes` counts; None without limit.
        services: How long, for services that have a time of their own.
    """

    age_seconds: int | None = None
    max_bytes: int | None = None
    services: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: CollectorSettings) -> "RetentionRules":
        """Return what the settings say.

        Raises:
            CollectorError: One of them is not SERVICE=AGE.
        """
        services = dict(_service(text) for text in settings.retain)
        return cls(settings.retain_age_seconds, settings.retain_bytes, services)

    def __bool__(self) -> bool:
        return bool(self.age_seconds or self.max_bytes or self.services)


def _service(text: str) -> tuple[str, int]:
    service, separator, age = text.rpartition("=")
    try:
        if service and separator:
            return service, parse_age(age)
    except ValueError:
        pass
    raise CollectorError(f"--retain must be SERVICE=AGE, such as shop=7d, not {text!r}")
