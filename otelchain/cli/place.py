"""Where a command asks, and what it shows to be let in: options that all asking commands share."""

from pathlib import Path
from typing import Final

import click

from otelchain.cli.options import DATABASE, ENDPOINT
from otelchain.reading.place import Place

__all__ = ["PLACE", "Place"]


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
