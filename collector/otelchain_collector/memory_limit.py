"""How the memory is divided: as told, or so that all of it fits into the container's limit.

A collector that does nothing takes 190 MiB. Besides, DuckDB takes what it may, the requests of a
full queue three times their bytes (they wait as rows), questions up to 64 MiB of answers. With the
usual shares that is 1.2 GiB; in a smaller container DuckDB gets a quarter, the queue a twelfth, and
no request may be larger than a quarter of the queue, since decoding takes several times its size.
"""

from pathlib import Path
from typing import Final, NamedTuple

_MIB: Final = 1024 * 1024
#: DuckDB's own default, 80 % of the host, gets a sidecar killed.
USUAL_DUCKDB_BYTES: Final = 512 * _MIB
#: Two of the largest requests, or one as it arrives and decompressed.
USUAL_QUEUE_BYTES: Final = 128 * _MIB
_DUCKDB_SHARE: Final = 4
_QUEUE_SHARE: Final = 12
_REQUEST_SHARE: Final = 4
# Below it what is left beside these shares is less than the collector itself.
_LEAST_BYTES: Final = 400 * _MIB
# Version 1 writes "no limit" as the largest multiple of a page; no machine has that much.
_NO_LIMIT_BYTES: Final = 1 << 60


class MemoryLimit(NamedTuple):
    """A limit, and in words where it comes from."""

    limit_bytes: int
    origin: str


class MemoryPlan(NamedTuple):
    """What each may take.

    ``warning`` says what will not fit; empty when everything does.
    """

    duckdb: MemoryLimit
    queue: MemoryLimit
    max_request_bytes: int
    warning: str

    def __str__(self) -> str:
        return (
            f"DuckDB may use {self.duckdb.limit_bytes >> 20} MiB ({self.duckdb.origin}), "
            f"the queue {self.queue.limit_bytes >> 20} MiB ({self.queue.origin}), "
            f"a request {self.max_request_bytes >> 20} MiB"
        )


def memory_plan(
    duckdb_bytes: int | None,
    queue_bytes: int | None,
    max_request_bytes: int,
    root: Path = Path("/"),
) -> MemoryPlan:
    """Divide the memory.

    Args:
        duckdb_bytes: What the user set; None when nothing.
        queue_bytes: The same.
        max_request_bytes: The largest request, which gives way where the queue follows the
            container.
        root: Where ``proc`` and ``sys`` are.
    """
    container = cgroup_limit(root)
    duckdb = _share(duckdb_bytes, USUAL_DUCKDB_BYTES, _DUCKDB_SHARE, container)
    queue = _share(queue_bytes, USUAL_QUEUE_BYTES, _QUEUE_SHARE, container)
    if queue_bytes is None and queue.limit_bytes < USUAL_QUEUE_BYTES:
        max_request_bytes = min(max_request_bytes, queue.limit_bytes // _REQUEST_SHARE)
    elif queue_bytes is None:
        # Whoever allows larger requests wants them to fit.
        queue = queue._replace(limit_bytes=max(queue.limit_bytes, 2 * max_request_bytes))
    return MemoryPlan(duckdb, queue, max_request_bytes, _warning(duckdb, queue, container))


def _share(
    asked_bytes: int | None, usual_bytes: int, share: int, container: MemoryLimit | None
) -> MemoryLimit:
    if asked_bytes is not None:
        return MemoryLimit(asked_bytes, "as set")
    if container is not None and container.limit_bytes // share < usual_bytes:
        origin = f"1/{share} of what {container.origin} allows"
        return MemoryLimit(container.limit_bytes // share, origin)
    return MemoryLimit(usual_bytes, "the default")


def _warning(duckdb: MemoryLimit, queue: MemoryLimit, container: MemoryLimit | None) -> str:
    if container is None:
        return ""
    needed = _LEAST_BYTES // 2 + duckdb.limit_bytes + 3 * queue.limit_bytes
    if max(needed, _LEAST_BYTES) <= container.limit_bytes:
        return ""
    return (
        f"{container.origin} allows {container.limit_bytes >> 20} MiB, but under load the "
        f"collector may take {max(needed, _LEAST_BYTES) >> 20} MiB and be killed; allow more, or "
        "lower --memory-limit-bytes and --queue-bytes"
    )


def cgroup_limit(root: Path = Path("/")) -> MemoryLimit | None:
    """Return the smallest limit on this process, of its cgroup and those above it (v1 and v2)."""
    found = [
        MemoryLimit(int(text), str(Path("/") / file.relative_to(root)))
        for file in _files(root)
        if (text := _text(file)).isdecimal() and int(text) < _NO_LIMIT_BYTES
    ]
    return min(found, default=None)


def _files(root: Path) -> list[Path]:
    files = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            mounts, name = ["sys/fs/cgroup", "sys/fs/cgroup/unified"], "memory.max"
        elif "memory" in controllers.split(","):
            mounts, name = ["sys/fs/cgroup/memory"], "memory.limit_in_bytes"
        else:
            continue
        # Inside a container the mount is the container's own group, whatever the path says.
        groups = [path.strip("/"), *(str(above) for above in Path(path.strip("/")).parents)]
        files += [root / mount / group / name for mount in mounts for group in groups]
    return files


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
