"""Settings of the spool: the arguments of `configure`, else their variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from otelchain.errors import ConfigurationError

_DIRECTORY = "OTELCHAIN_SPOOL"
_MAX_BYTES = "OTELCHAIN_SPOOL_MAX_BYTES"
_MIB = 1024 * 1024


@dataclass(frozen=True)
class SpoolSettings:
    """Where batches wait in an outage, and how many bytes of them.

    Raises:
        ConfigurationError: The limit is not a whole number above 0.
    """

    directory: str = field(
        default="",
        metadata={
            "variable": _DIRECTORY,
            "help": "Directory on a local disk where spans wait while the collector is away; "
            "without it they are lost after about 7 seconds. Processes may share it.",
        },
    )
    # About 100,000 spans of 2.7 KB, what a LangChain span with content weighs.
    max_bytes: int = field(
        default=256 * _MIB,
        metadata={
            "variable": _MAX_BYTES,
            "help": "Most bytes that wait in the spool of one process; beyond it the oldest batch "
            "is dropped.",
        },
    )

    @classmethod
    def of(
        cls,
        directory: str | Path | None = None,
        max_bytes: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> "SpoolSettings":
        """Take what is given, else what the environment says, else the default."""
        environment = os.environ if environment is None else environment
        text = environment.get(_DIRECTORY, "").strip() if directory is None else str(directory)
        if max_bytes is None:
            max_bytes = _limit(environment.get(_MAX_BYTES, "").strip())
        elif max_bytes <= 0:
            raise ConfigurationError(
                f"spool_max_bytes must be a whole number above 0, not {max_bytes!r}"
            )
        return cls(text, max_bytes)


def _limit(text: str) -> int:
    if not text:
        return SpoolSettings.max_bytes
    if not text.isdecimal() or int(text) == 0:
        raise ConfigurationError(f"{_MAX_BYTES} must be a whole number above 0, not {text!r}")
    return int(text)
