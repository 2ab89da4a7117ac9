"""Settings of the collector: one field each, with its option, variable and help in one place.

The command's options (command.py) and the table in the documentation are made from here.
"""

import ipaddress
import re
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from otelchain_collector.errors import CollectorError

_MIB = 1024 * 1024
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": _MIB, "gi": 1024 * _MIB}


def _setting(default: Any, option: str, variable: str, help_text: str) -> Any:
    return field(
        default=default, metadata={"option": option, "variable": variable, "help": help_text}
    )


@dataclass(frozen=True)
class CollectorSettings:
    """How one collector runs."""

    database: Path = _setting(  # noqa: RUF009 - it returns a dataclasses.field
        Path("otelchain.duckdb"),
        "--database",
        "OTELCHAIN_DATABASE",
        "DuckDB file to write; created when it does not exist.",
    )
    grpc: str = _setting(
        "127.0.0.1:4317",
        "--grpc",
        "OTELCHAIN_COLLECTOR_GRPC",
        "HOST:PORT for OTLP over gRPC; port 0 picks a free one.",
    )
    http: str = _setting(
        "127.0.0.1:4318",
        "--http",
        "OTELCHAIN_COLLECTOR_HTTP",
        "HOST:PORT for OTLP over HTTP, questions and health; port 0 picks a free one.",
    )
    allow_remote: bool = _setting(
        False,
        "--allow-remote",
        "OTELCHAIN_COLLECTOR_ALLOW_REMOTE",
        "Accept a HOST that other machines can reach. Whoever reaches it may write and read.",
    )
    allow_hosts: tuple[str, ...] = _setting(
        (),
        "--allow-host",
        "OTELCHAIN_COLLECTOR_ALLOW_HOSTS",
        "Name, besides localhost and the address, by which questions may be asked; may be "
        "repeated (in the variable: several with spaces between). `*` is any name.",
    )
    # The recommendation of the OTLP specification, 1.11.0.
    max_request_bytes: int = _setting(
        64 * _MIB,
        "--max-request-bytes",
        "OTELCHAIN_COLLECTOR_MAX_REQUEST_BYTES",
        "Largest request, also after decompression. Units such as 64MiB work.",
    )
    # A long prompt with an image in it stays whole.
    max_attribute_bytes: int = _setting(
        8 * _MIB,
        "--max-attribute-bytes",
        "OTELCHAIN_COLLECTOR_MAX_ATTRIBUTE_BYTES",
        "Longest attribute value; a longer one is cut, with its size and SHA-256 at the end.",
    )
    # Two of the largest requests. The spans of a request take about three times its bytes while
    # they wait, so that a full queue is some 400 MB.
    queue_bytes: int = _setting(
        128 * _MIB,
        "--queue-bytes",
        "OTELCHAIN_COLLECTOR_QUEUE_BYTES",
        "Requests held until their commit; beyond it senders are told to try again.",
    )
    memory_limit_bytes: int = _setting(
        512 * _MIB,
        "--memory-limit-bytes",
        "OTELCHAIN_COLLECTOR_MEMORY_LIMIT_BYTES",
        "Memory that DuckDB may use, besides the queue.",
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
    if isinstance(default, int):
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
    if not (allow_remote or _is_loopback(host)):
        raise CollectorError(
            f"{option} {text} can be reached from other machines, and whoever reaches it may read "
            "every trace; use 127.0.0.1, or add --allow-remote"
        )
    return Address(host, int(match["port"]))


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
