"""How much memory DuckDB may use: as told, or what the container's limit leaves room for."""

from pathlib import Path
from typing import Final, NamedTuple

#: DuckDB's own default, 80 % of the host, gets a sidecar killed.
USUAL_BYTES: Final = 512 * 1024 * 1024
# The other half is for the queue, what Arrow builds, and Python.
_SHARE_OF_CGROUP: Final = 2
# Version 1 writes "no limit" as the largest multiple of a page; no machine has that much.
_NO_LIMIT_BYTES: Final = 1 << 60


class MemoryLimit(NamedTuple):
    """A limit, and in words where it comes from."""

    limit_bytes: int
    origin: str


def memory_limit(asked_bytes: int | None, root: Path = Path("/")) -> MemoryLimit:
    """Return DuckDB's limit.

    Args:
        asked_bytes: What the user set; None when nothing.
        root: Where ``proc`` and ``sys`` are.
    """
    cgroup = cgroup_limit(root)
    if asked_bytes is not None:
        if cgroup is not None and asked_bytes >= cgroup.limit_bytes:
            return MemoryLimit(asked_bytes, f"as set, MORE than {cgroup.origin} allows")
        return MemoryLimit(asked_bytes, "as set")
    if cgroup is not None and cgroup.limit_bytes // _SHARE_OF_CGROUP < USUAL_BYTES:
        limit_bytes = cgroup.limit_bytes // _SHARE_OF_CGROUP
        return MemoryLimit(limit_bytes, f"half of what {cgroup.origin} allows")
    return MemoryLimit(USUAL_BYTES, "the default")


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
