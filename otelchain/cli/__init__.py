"""The ``otelchain`` command: ask what runs did, run the collector, see the demo."""

from otelchain.cli.root import cli

__all__ = ["cli", "main"]


def main() -> None:
    """Run the command with the arguments of the process; does not return."""
    cli.main(prog_name="otelchain")
