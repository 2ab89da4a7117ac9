"""Read DuckDB's write-ahead log without DuckDB: how much of it is whole?

DuckDB refuses a log with a wrong checksum, but takes a damaged length for the end of the log and
forgets what follows without a word. Format (DuckDB 1.4 to 2.0, src/storage/wal_replay.cpp): an
entry with the version, then frames of length (8 bytes), checksum (8 bytes) and entry; a transaction
ends with a flush.
"""

import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np

_FRAME: Final = struct.Struct("<QQ")
#: Field 100 is the kind of an entry: 100, a flush.
_FLUSH: Final = b"\x64\x00\x64\xff\xff"
#: Kind 98: field 101, the version; 102, the 16 bytes of the database's id; 103, its checkpoint.
_HEADER: Final = re.compile(
    rb"\x64\x00\x62\x65\x00(?P<version>[\x00-\x7f])"
    rb"(?:\x66\x00\x10(?:[\x80-\xff]?[\x00-\x7f]){16})?"
    rb"(?:\x67\x00[\x80-\xff]*[\x00-\x7f])?\xff\xff",
    re.DOTALL,
)
_LONGEST_HEADER: Final = 128
_KNOWN_VERSION: Final = 2
# A version that far away is a byte with a wrong bit in it.
_LAST_VERSION: Final = 15
# A request with all its attributes is smaller; a longer frame is a length with a wrong bit in it.
_LONGEST_FRAME: Final = 512 * 1024 * 1024
_WORDS: Final = 1 << 20  # as many at a time

_MASK: Final = 2**64 - 1
_MULTIPLIER: Final = 0xBF58476D1CE4E5B9
_MURMUR: Final = 0xC6A4A7935BD1E995


class LogState(NamedTuple):
    """What a log holds.

    Attributes:
        total_bytes: Its size.
        whole_bytes: Up to the end of its last whole transaction.
        fault: ``torn``: it ends in the middle of a transaction, as a kill leaves it; ``damaged``:
            bytes are not what was written; empty: neither.
    """

    total_bytes: int
    whole_bytes: int
    fault: Literal["", "torn", "damaged"]

    @property
    def lost_bytes(self) -> int:
        """What no transaction can be made of."""
        return self.total_bytes - self.whole_bytes


def examine(log: Path) -> LogState:
    """Walk through a log; a missing one is whole.

    Raises:
        OSError: It cannot be read.
    """
    if not log.exists() or log.stat().st_size == 0:
        return LogState(0, 0, "")
    with log.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return _examine(content)


def _examine(content: Any) -> LogState:
    total = len(content)
    header = _HEADER.match(content[:_LONGEST_HEADER])
    version = header["version"][0] if header else total
    if _KNOWN_VERSION < version <= _LAST_VERSION:
        return LogState(total, total, "")  # Of a newer DuckDB, which will know.
    if header is None or version > _LAST_VERSION:
        return LogState(total, 0, "torn" if total < _LONGEST_HEADER else "damaged")
    first = header.end()
    whole = end = first
    for end, is_flush in _frames(content, first):
        if is_flush:
            whole = end
    if end == total:
        return LogState(total, whole, "torn" if whole < total else "")
    is_torn = _is_cut(content, end) and content.find(_FLUSH_FRAME, end) < 0
    return LogState(total, whole, "torn" if is_torn else "damaged")


def _frames(content: Any, position: int) -> Iterator[tuple[int, bool]]:
    """Yield where each good frame ends, and whether it is a flush, up to the first bad one."""
    while position + _FRAME.size <= len(content):
        size, checksum = _FRAME.unpack_from(content, position)
        start = position + _FRAME.size
        if not 0 < size <= len(content) - start or _checksum(content, start, size) != checksum:
            return
        position = start + size
        yield position, size == len(_FLUSH) and content[start:position] == _FLUSH


def _is_cut(content: Any, position: int) -> bool:
    """Tell whether the log just ends where the frame at ``position`` goes on."""
    if len(content) - position < _FRAME.size:
        return True
    size, _ = _FRAME.unpack_from(content, position)
    return bool(len(content) - position - _FRAME.size < size <= _LONGEST_FRAME)


def _checksum(content: Any, start: int, size: int) -> int:
    """DuckDB's own (src/common/checksum.cpp)."""
    words, rest = divmod(size, 8)
    result = 5381
    for first in range(0, words, _WORDS):
        count = min(_WORDS, words - first)
        piece = np.frombuffer(content, "<u8", count, start + 8 * first) * np.uint64(_MULTIPLIER)
        result ^= int(np.bitwise_xor.reduce(piece))
    return result ^ _of_rest(content[start + 8 * words : start + size]) if rest else result


def _of_rest(rest: bytes) -> int:
    value = 0xE17A1465 ^ (len(rest) * _MURMUR & _MASK)
    value = (value ^ int.from_bytes(rest, "little")) * _MURMUR & _MASK
    value = (value ^ value >> 47) * _MURMUR & _MASK
    return value ^ value >> 47


# With its checksum. Where a log is torn none follows: then it is a length with a wrong bit in it
# that seems to reach beyond the end, and the transactions after it were acknowledged.
_FLUSH_FRAME: Final = _FRAME.pack(len(_FLUSH), _checksum(_FLUSH, 0, len(_FLUSH))) + _FLUSH
