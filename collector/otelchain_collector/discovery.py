"""A small file beside the database that tells other processes where its collector answers."""

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from otelchain_collector.errors import CollectorError
from otelchain_collector.real_path import real_path
from otelchain_collector.settings import parse_address


@dataclass(frozen=True)
class Discovery:
    """A running collector: its process, and the addresses (HOST:PORT) at which it is reached."""

    pid: int
    http: str
    grpc: str
    version: str
    scheme: str = "http"

    @property
    def endpoint(self) -> str:
        """The address to ask."""
        return f"{self.scheme}://{self.http}"


def discovery_path(database: Path) -> Path:
    """Return the path of the file; it need not exist."""
    database = real_path(database)
    return database.with_name(database.name + ".collector.json")


def write(database: Path, discovery: Discovery) -> None:
    """Publish the collector of a database."""
    path = discovery_path(database)
    draft = path.with_name(f"{path.name}.{discovery.pid}")
    draft.unlink(missing_ok=True)
    # New, for this user only, and never through a link that somebody laid there.
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(json.dumps(asdict(discovery)) + "\n")
    # A reader sees the old file or the new one, never half of one.
    draft.replace(path)


def read(database: Path) -> Discovery | None:
    """Return the collector of a database; None when none runs (a killed one leaves its file).

    Questions and the user's token go to the address in the file, so that one of another user, laid
    beside the database in a folder that many may write, counts for nothing.
    """
    try:
        with discovery_path(database).open(encoding="utf-8") as file:
            if not _is_trusted(os.fstat(file.fileno()).st_uid, database):
                return None
            fields = json.load(file)
        found = Discovery(
            int(fields["pid"]),
            str(fields["http"]),
            str(fields["grpc"]),
            str(fields["version"]),
            str(fields.get("scheme", "http")),
        )
        for address in (found.http, found.grpc):
            parse_address(address, "the discovery file", allow_remote=True)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, CollectorError):
        return None
    return found if is_running(found.pid) else None


def remove(database: Path) -> None:
    """Withdraw the file, unless another collector has replaced it."""
    found = read(database)
    if found is None or found.pid == os.getpid():
        with contextlib.suppress(OSError):
            discovery_path(database).unlink()


def _is_trusted(owner: int, database: Path) -> bool:
    if os.name != "posix" or owner in (os.geteuid(), 0):
        return True
    # Whoever has the database could show anything in it, too.
    return database.stat().st_uid == owner


def is_running(pid: int) -> bool:
    """Tell whether a process with this number lives; where that cannot be told, it does."""
    if os.name != "posix":  # Elsewhere signal 0 is not a question but Ctrl+C.
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
