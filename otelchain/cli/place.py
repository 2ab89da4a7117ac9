"""Where a command asks, and what it shows to be let in: options that all asking commands share."""

from collections.abc import MutableMapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import click

from otelchain.cli.options import DATABASE, ENDPOINT


@dataclass(frozen=True)
class Place:
    """A database file, or a collector with what it takes to be let in."""

    database: Path
    endpoint: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None

    @classmethod
    def taken_from(cls, values: MutableMapping[str, Any]) -> "Place":
        """Take the values of `PLACE` out of a command's values."""
        return cls(**{field.name: values.pop(field.name) for field in fields(cls)})


def _file_option(option: str, variable: str, text: str) -> click.Option:
    return click.Option(
        [option],
        type=click.Path(path_type=Path),
        metavar="FILE",
        envvar=variable,
        show_envvar=True,
        help=text,
    )


PLACE: Final = (
    DATABASE,
    ENDPOINT,
    _file_option(
        "--token-file",
        "OTELCHAIN_TOKEN_FILE",
        "File whose first word is the collector's token; or put the token into OTELCHAIN_TOKEN.",
    ),
    _file_option(
        "--ca-file",
        "OTEL_EXPORTER_OTLP_CERTIFICATE",
        "PEM file with the authority that the collector's certificate comes from.",
    ),
    _file_option(
        "--client-certificate",
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
        "PEM file to show to a collector that asks for a certificate.",
    ),
    _file_option("--client-key", "OTEL_EXPORTER_OTLP_CLIENT_KEY", "PEM file with its key."),
)
