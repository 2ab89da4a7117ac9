"""Why the demo could not run."""

from otelchain.errors import OtelchainError


class DemoError(OtelchainError):
    """The demo cannot start or go on; the command prints the text and exits with 2."""


def first_line(error: Exception) -> str:
    """Give what a provider's exception says in one line; its type when it says nothing."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
