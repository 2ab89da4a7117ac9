"""``python -m otelchain_collector``: the collector command without the rest of the CLI."""

import sys
from collections.abc import Sequence
from typing import NoReturn

from otelchain_collector.command import collector_command


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit; the arguments are those of this process unless given."""
    collector_command.main(
        args=None if argv is None else list(argv), prog_name="python -m otelchain_collector"
    )
    sys.exit(0)


if __name__ == "__main__":
    main()
