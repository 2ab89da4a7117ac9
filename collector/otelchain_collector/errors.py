"""The errors of the collector; each text is one line that says what is wrong and what to do."""

from otelchain.errors import OtelchainError


class CollectorError(OtelchainError):
    """The collector cannot start or go on; the command line prints the text and exits with 2."""


class StoreError(CollectorError):
    """The database file cannot be opened or used."""


class SchemaTooNewError(StoreError):
    """The file was written by a newer otelchain; nothing in it was touched."""


class StoreUnavailableError(StoreError):
    """A commit failed for a reason that may pass (disk full, memory); the sender should retry."""


class DamagedFileError(StoreUnavailableError):
    """A block of the file that is needed is not what was written."""


class RowsRefusedError(StoreError):
    """At least one of the rows can never be stored; none of them was."""
