"""Every error a user can meet, with a text that names the thing, what is wrong and what to do."""


class OtelchainError(Exception):
    """Base of all errors raised by otelchain; the command line prints its text as one line."""


class ConfigurationError(OtelchainError):
    """A setting, argument or variable has a value that cannot be used."""


class RedactionPolicyError(OtelchainError):
    """A redaction rule cannot be used: its pattern, key or callable is wrong."""
