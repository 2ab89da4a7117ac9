"""Settings of the collector: one field each, with its option, variable and help in one place.

The command's options (command.py) and the table in the documentation are made from here.
"""

import ipaddress
import re
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from otelchain_collector.errors import CollectorError

_MIB = 1024 * 1024
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": _MIB, "gi": 1024 * _MIB}


_AGE_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


Kind = Literal[
    "address",
    "age",
    "ages",
    "choice",
    "count",
    "flag",
    "names",
    "path",
    "policy",
    "secret",
    "seconds",
    "size",
]


def _setting(
    default: Any, kind: Kind, option: str, variable: str, help_text: str, *choices: str
) -> Any:
    metadata = {
        "kind": kind,
        "option": option,
        "variable": variable,
        "help": help_text,
        "choices": choices,
    }
    return field(default=default, repr=kind != "secret", metadata=metadata)


@dataclass(frozen=True)
class CollectorSettings:
    """How one collector runs."""

    database: Path = _setting(
        Path("otelchain.duckdb"),
        "path",
        "--database",
        "OTELCHAIN_DATABASE",
        "DuckDB file to write; created when it does not exist.",
    )
    grpc: str = _setting(
        "127.0.0.1:4317",
        "address",
        "--grpc",
        "OTELCHAIN_COLLECTOR_GRPC",
        "HOST:PORT for OTLP over gRPC; port 0 picks a free one.",
    )
    http: str = _setting(
        "127.0.0.1:4318",
        "address",
        "--http",
        "OTELCHAIN_COLLECTOR_HTTP",
        "HOST:PORT for OTLP over HTTP, questions and health; port 0 picks a free one.",
    )
    allow_remote: bool = _setting(
        False,
        "flag",
        "--allow-remote",
        "OTELCHAIN_COLLECTOR_ALLOW_REMOTE",
        "Accept a HOST that other machines can reach without tokens. Whoever reaches it may write "
        "and read everything.",
    )
    allow_hosts: tuple[str, ...] = _setting(
        (),
        "names",
        "--allow-host",
        "OTELCHAIN_COLLECTOR_ALLOW_HOSTS",
        "Name, besides localhost and the address, by which questions may be asked; may be "
        "repeated (in the variable: several with spaces between). `*` is any name.",
    )
    # The recommendation of the OTLP specification, 1.11.0.
    max_request_bytes: int = _setting(
        64 * _MIB,
        "size",
        "--max-request-bytes",
        "OTELCHAIN_COLLECTOR_MAX_REQUEST_BYTES",
        "Largest request, also after decompression. Units such as 64MiB work. Where the queue "
        "follows the limit of a small container, at most a quarter of the queue.",
    )
    # A long prompt with an image in it stays whole.
    max_attribute_bytes: int = _setting(
        8 * _MIB,
        "size",
        "--max-attribute-bytes",
        "OTELCHAIN_COLLECTOR_MAX_ATTRIBUTE_BYTES",
        "Longest attribute value; a longer one is cut, with its size and SHA-256 at the end.",
    )
    queue_bytes: int | None = _setting(
        None,
        "size",
        "--queue-bytes",
        "OTELCHAIN_COLLECTOR_QUEUE_BYTES",
        "Requests held until their commit; beyond it senders are told to try again. A record "
        "counts as 256 bytes at least. A full queue takes about three times as much memory. "
        "Without it: 128MiB, or a twelfth of the container's limit (cgroup) where that is less.",
    )
    memory_limit_bytes: int | None = _setting(
        None,
        "size",
        "--memory-limit-bytes",
        "OTELCHAIN_COLLECTOR_MEMORY_LIMIT_BYTES",
        "Memory that DuckDB may use, besides the queue. Without it: 512MiB, or a quarter of the "
        "container's limit (cgroup) where that is less.",
    )
    retain_age_seconds: int | None = _setting(
        None,
        "age",
        "--retain-age",
        "OTELCHAIN_COLLECTOR_RETAIN_AGE",
        "How long everything is kept after its arrival, such as 30d or 12h; without it, for ever. "
        "A trace is kept whole while anything of it arrives, but nothing for more than twice the "
        "time.",
    )
    retain_bytes: int | None = _setting(
        None,
        "size",
        "--retain-bytes",
        "OTELCHAIN_COLLECTOR_RETAIN_BYTES",
        "How much is kept, such as 20GB: beyond it, what arrived first is deleted; traces "
        "that go on come last.",
    )
    retain: tuple[str, ...] = _setting(
        (),
        "ages",
        "--retain",
        "OTELCHAIN_COLLECTOR_RETAIN",
        "A time of its own for a service, shorter or longer than --retain-age, such as shop=7d; "
        "may be repeated (in the variable: several with spaces between).",
    )
    token: str = _setting(
        "",
        "secret",
        "",
        "OTELCHAIN_COLLECTOR_TOKEN",
        "A bearer token that may do everything. There is no option for it, since other users of "
        "the machine see command lines.",
    )
    token_file: Path | None = _setting(
        None,
        "path",
        "--token-file",
        "OTELCHAIN_COLLECTOR_TOKEN_FILE",
        "File of bearer tokens, one a line, each with what it may do: `TOKEN write read sql "
        "metrics maintain`; without a word, all of them. Read again when it changes.",
    )
    tls_certificate: Path | None = _setting(
        None,
        "path",
        "--tls-certificate",
        "OTELCHAIN_COLLECTOR_TLS_CERTIFICATE",
        "PEM file with the certificate (and its chain) for TLS on both ports. Read again when it "
        "changes, like the two below.",
    )
    tls_key: Path | None = _setting(
        None,
        "path",
        "--tls-key",
        "OTELCHAIN_COLLECTOR_TLS_KEY",
        "PEM file with the private key of the certificate.",
    )
    tls_client_ca: Path | None = _setting(
        None,
        "path",
        "--tls-client-ca",
        "OTELCHAIN_COLLECTOR_TLS_CLIENT_CA",
        "PEM file with the authorities whose client certificates are accepted; with it, a client "
        "without one is refused (mutual TLS).",
    )
    redaction: str = _setting(
        "personal",
        "policy",
        "--redaction",
        "OTELCHAIN_REDACTION",
        "Policy that everything passes before it is stored, whoever sent it: a file, or a preset "
        "(secrets, personal, strict; off: nothing is redacted).",
    )
    # An SDK gives up on an export after 10 s: what takes longer to arrive, nobody waits for.
    request_seconds: int = _setting(
        30,
        "seconds",
        "--request-seconds",
        "OTELCHAIN_COLLECTOR_REQUEST_SECONDS",
        "Longest time for a TLS handshake, for a request to arrive, and for a client to take a "
        "piece of its answer.",
    )
    max_connections: int = _setting(
        512,
        "count",
        "--max-connections",
        "OTELCHAIN_COLLECTOR_MAX_CONNECTIONS",
        "Most connections to each port, those within a TLS handshake too, and most open calls on "
        "the gRPC port.",
    )
    query_seconds: int = _setting(
        30,
        "seconds",
        "--query-seconds",
        "OTELCHAIN_COLLECTOR_QUERY_SECONDS",
        "Longest time that a question may run.",
    )
    log_format: str = _setting(
        "text",
        "choice",
        "--log-format",
        "OTELCHAIN_COLLECTOR_LOG_FORMAT",
        "Form of the log on standard error: text, or one JSON object a line.",
        "text",
        "json",
    )
    log_level: str = _setting(
        "info",
        "choice",
        "--log-level",
        "OTELCHAIN_COLLECTOR_LOG_LEVEL",
        "The least that is logged.",
        "debug",
        "info",
        "warning",
        "error",
    )


class SettingText(NamedTuple):
    """A setting as the documentation shows it."""

    name: str
    option: str
    variable: str
    default: str
    help: str


def setting_texts() -> list[SettingText]:
    """Return every setting, in order."""
    return [
        SettingText(
            setting.name,
            setting.metadata["option"],
            setting.metadata["variable"],
            shown_default(setting),
            setting.metadata["help"],
        )
        for setting in fields(CollectorSettings)
    ]


def shown_default(setting: "Field[Any]") -> str:
    """Write a default the way a user would type it."""
    default = setting.default
    if isinstance(default, bool):
        return "off"
    if setting.metadata["kind"] == "size" and isinstance(default, int):
        return f"{default // _MIB}MiB"
    return str(default) if default else ""


def parse_bytes(text: str) -> int:
    """Read a size such as ``1048576``, ``64MiB`` or ``1GB``.

    Raises:
        ValueError: It is not a size above 0.
    """
    match = re.fullmatch(r"([0-9]+)\s*([kmg]i?)?b?", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is not a size; write a number of bytes, or one such as 64MiB")
    return int(match[1]) * _UNITS[match[2] or ""]


def parse_age(text: str) -> int:
    """Read a time such as ``30d``, ``12h`` or ``90s``; returns seconds.

    Raises:
        ValueError: It is not a time above 0.
    """
    match = re.fullmatch(r"([0-9]+)\s*([smhdw])", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is not a time; write one such as 30d, 12h or 45m")
    return int(match[1]) * _AGE_UNITS[match[2]]


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, option: str, *, allow_remote: bool) -> Address:
    """Read HOST:PORT; an IPv6 host stands in brackets.

    Raises:
        CollectorError: It has another form, or other machines could reach it unasked.
    """
    match = re.fullmatch(
        r"(?:\[(?P<v6>[0-9a-fA-F:.%]+)\]|(?P<name>[^:\[\]]+)):(?P<port>[0-9]+)", text
    )
    if match is None or int(match["port"]) > 65_535:
        raise CollectorError(f"{option} must be HOST:PORT, such as 127.0.0.1:4317, not {text!r}")
    host = match["v6"] or match["name"]
    if not (allow_remote or is_loopback(host)):
        raise CollectorError(
            f"{option} {text} can be reached from other machines, and whoever reaches it may read "
            "every trace; use 127.0.0.1, set --token-file, or add --allow-remote to let anyone in"
        )
    return Address(host, int(match["port"]))


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
