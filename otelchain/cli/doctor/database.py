"""The database file: who has it, can it be read, is there room."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from otelchain.cli.doctor.exporter import Exporter
from otelchain.cli.doctor.finding import Finding, Level
from otelchain.cli.doctor.probing import is_same_host
from otelchain.cli.place import Place
from otelchain.reading.connect import is_loopback, reason
from otelchain.reading.file_source import FileSource
from otelchain.reading.remote import CollectorSource, NotAllowedError
from otelchain.reading.source import SourceError
from otelchain_collector import discovery
from otelchain_collector.answer import QueryFailed
from otelchain_collector.drafts import abandoned
from otelchain_collector.real_path import real_path
from otelchain_collector.rules import OLDEST, older
from otelchain_collector.salvage import damage_of_log, logs_laid_aside
from otelchain_collector.schema import LATEST_VERSION

_VERSION: Final = "SELECT max(version), (SELECT count(*) FROM spans) FROM schema_migrations"
_FEW_BYTES: Final = 1024**3
_TOO_FEW_BYTES: Final = 100 * 1024**2
_PERMISSIONS: Final = (
    "a token with the permission 'read' may ask named queries, one with 'sql' everything; to send "
    "spans neither is needed"
)
_OTHERS: Final = 0o077


def database(place: Place, exporter: Exporter, *, arrives: bool) -> Iterator[Finding]:
    """Look at the file, at the collector that holds it, and whether the spans go there.

    Args:
        place: The file, or the collector to ask.
        exporter: Where the spans go.
        arrives: The collector there takes them.
    """
    is_here = place.database.exists()
    if place.endpoint is None:
        if not is_here and (arrives or _is_elsewhere(exporter)):
            # An application needs no database beside it.
            yield Finding("file", "note", f"there is no database {str(place.database)!r} here")
            return
        yield from _file(place)
        yield from _elsewhere(place, exporter, arrives=arrives)
    yield from _answers(place)
    if is_here or place.endpoint is None:
        yield from _room(place.database)


def _is_elsewhere(exporter: Exporter) -> bool:
    return exporter.address is not None and not is_loopback(exporter.address.hostname or "")


def _file(place: Place) -> Iterator[Finding]:
    path = place.database
    if not path.exists():
        yield Finding(
            "file",
            "warning",
            f"there is no database {str(path)!r}",
            "name it with --database or OTELCHAIN_DATABASE, or start 'otelchain collector'",
        )
        return
    if os.name == "posix" and path.stat().st_mode & _OTHERS:
        yield Finding(
            "file",
            "warning",
            f"other users of this machine may open {str(path)!r}",
            f"chmod {700 if path.is_dir() else 600} {path}",
        )
    yield from _damage(path)
    for left in abandoned(path):
        yield Finding(
            "file",
            "warning",
            f"{str(left)!r} was left by a command that was killed while it wrote",
            "remove it; the next command that writes the file anew does so, too",
        )


def _damage(database: Path) -> Iterator[Finding]:
    damage = damage_of_log(database)
    if damage is not None:
        yield Finding("file", "error", damage.what, damage.remedy)
    for aside in logs_laid_aside(database):
        yield Finding(
            "file",
            "warning",
            f"a write-ahead log was damaged: {str(aside)!r} is a copy of it, and the spans in its "
            "damaged part are not in the database (see the table wal_losses)",
            "look at the disk; remove the copy when it is of no use any more",
        )


def _elsewhere(place: Place, exporter: Exporter, *, arrives: bool) -> Iterator[Finding]:
    found = discovery.read(place.database)
    parts = exporter.address
    if found is None or parts is None:
        return
    mine = found.grpc if exporter.protocol == "grpc" else found.http
    is_same_port = parts.port == _port(mine)
    if is_same_port and is_same_host(parts.hostname, urlsplit(f"//{mine}").hostname):
        return
    variable = "" if exporter.origin == "the default" else f"; {exporter.origin}"
    yield Finding(
        "exporter",
        # It may well be another name of this machine.
        "note" if arrives and is_same_port else "warning",
        f"spans go to {parts.netloc}, but the collector of {str(place.database)!r} listens at "
        f"{mine}{variable}",
        f"export {exporter.setting(f'{found.scheme}://{mine}')}",
    )


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _answers(place: Place) -> Iterator[Finding]:
    found = None if place.endpoint else discovery.read(place.database)
    endpoint = found.endpoint if found else place.endpoint
    if endpoint is None and not place.database.exists():
        return
    try:
        source: CollectorSource | FileSource = FileSource(place.database)
        if endpoint is not None:
            source = CollectorSource(endpoint, place)
            silence = source.silence()
            if silence is not None:
                holder = f"the collector with PID {found.pid}" if found else "the collector"
                yield Finding(
                    "collector",
                    "error",
                    f"{holder} does not answer at {endpoint} ({silence})",
                    "see its log; when it was stopped, kill -CONT lets it go on",
                )
                return
            yield Finding("collector", "ok", f"a collector answers at {endpoint}")
            source.names()
        [[version, spans]] = source.sql(_VERSION, 1).rows
    except NotAllowedError as error:
        # An application only writes; a token that is shown and unknown is a mistake.
        level: Level = "warning" if error.is_unknown else "note"
        yield Finding("collector", level, str(error), _PERMISSIONS)
        return
    except (SourceError, QueryFailed) as error:
        yield Finding("file", "error", reason(str(error)))
        return
    yield Finding(
        "file", "ok", f"schema version {version} (this otelchain: {LATEST_VERSION}), {spans} spans"
    )
    if version == LATEST_VERSION:
        yield from _rules(source)


def _rules(source: CollectorSource | FileSource) -> Iterator[Finding]:
    [[version, spans]] = source.sql(OLDEST, 1).rows
    told = older(int(str(version or 0)), int(str(spans)))
    if told is not None:
        yield Finding("file", "warning", told, "otelchain reindex, also while the collector runs")


def _room(path: Path) -> Iterator[Finding]:
    folder = real_path(path).absolute().parent
    if not folder.is_dir():
        yield Finding("disk", "error", f"the folder {folder} does not exist", "create it")
        return
    if not os.access(folder, os.W_OK):
        yield Finding(
            "disk",
            "warning",
            f"you may not write into {folder}",
            "a collector of another user may; otherwise change its owner",
        )
    free_bytes = shutil.disk_usage(folder).free
    text = f"{free_bytes / 1024**3:.1f} GiB are free in {folder}"
    if free_bytes >= _FEW_BYTES:
        yield Finding("disk", "ok", text)
    else:
        level = "warning" if free_bytes >= _TOO_FEW_BYTES else "error"
        yield Finding("disk", level, text, "make room: on a full disk no span is stored")  # type: ignore[arg-type]
