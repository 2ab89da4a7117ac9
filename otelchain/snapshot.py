"""Turn any Python value into a JSON tree at once, within a byte budget and without ever failing.

Stands between the handler and the redaction: a later mutation of the application's object cannot
change the record, and no object of the application is copied, pickled or kept.
"""

import dataclasses
import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from hashlib import sha256
from pathlib import PurePath
from typing import Any
from uuid import UUID

import orjson

JSONValue = Any
"""dict[str, JSONValue] | list[JSONValue] | str | int | float | bool | None"""

MAX_DEPTH = 64
"""Deeper containers are named, not entered; orjson and JSON readers stop at about 250."""

_REDACTION_OVERLAP_BYTES = 8_192  # longer than any token or key block that a rule looks for
_MAX_REPR_BYTES = 1_000
# What a node takes from the budget beside its text. JSON needs about 2 bytes; the rest stands for
# the half microsecond that walking it costs, so that a value of very many small nodes does not
# hold up the event loop longer than one long text does.
_NODE_BYTES = 16
_INT64 = range(-(2**63), 2**64)  # what orjson writes as a number
_CONTAINERS = frozenset({dict, list, tuple, set, frozenset})
_QUICK_OPTIONS = (
    orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_ATOMS = (datetime, date, time, timedelta, Decimal, PurePath, UUID)
_LISTS = (list, tuple, set, frozenset)


@dataclass(frozen=True)
class Snapshot:
    """A JSON tree and whether the budget left something out of it."""

    tree: JSONValue
    truncated: bool


def snapshot(
    value: object, max_bytes: int, redact: Callable[[str], str] = lambda text: text
) -> Snapshot:
    """Describe a value as a JSON tree of at most about ``max_bytes`` bytes of UTF-8.

    What does not fit is named in place with its size: a text is cut between two characters and
    carries the SHA-256 of its whole, a container says how many of its entries are missing. So a
    5 MB text costs one hash, and a list of a million rows costs the rows that are kept.

    Args:
        value: Anything, also objects whose ``__repr__`` raises, cycles and locks.
        max_bytes: The budget.
        redact: Applied to a text before it is cut: half a secret no longer looks like one.

    >>> snapshot({"at": date(2026, 1, 2), 1: {3}, "nan": float("nan")}, 1000).tree
    {'at': '2026-01-02', '1': [3], 'nan': 'NaN'}
    """
    walk = _Walk(max_bytes, redact)
    tree = walk.visit(value, 0)
    return Snapshot(tree, walk.truncated)


def _is_small(value: object, max_bytes: int) -> bool:
    """Whether a plain value fits a budget, found out without writing it; others are guessed small.

    Texts count their characters; what is neither text, number nor container counts as a node.
    """
    if type(value) not in _CONTAINERS:
        return not isinstance(value, (int, float))  # a number alone may be an identifier
    waiting, left = [value], max_bytes
    while waiting:
        members: Any = waiting.pop()
        left -= len(members) * _NODE_BYTES
        if left < 0:
            return False
        for member in members.values() if type(members) is dict else members:
            if type(member) is str:
                left -= len(member)
            elif type(member) in _CONTAINERS:
                waiting.append(member)
    return left >= 0


def quick_json(value: object, max_bytes: int) -> bytes | None:
    """Write a small value as JSON in one pass of orjson; None where only `snapshot` does it right.

    That is where it is too large, where orjson refuses (cycles, lone surrogates, integers beyond
    64 bits), and where it would say null of a NaN.
    """
    try:
        if not _is_small(value, max_bytes):
            return None
        encoded = orjson.dumps(value, default=_quick_default, option=_QUICK_OPTIONS)
    except (TypeError, ValueError, RuntimeError):  # the last: changed by another thread meanwhile
        return None
    return None if b"null" in encoded else encoded


def _quick_default(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    members = _fields(value)
    if members is None:
        raise TypeError
    return members


def whole_json(value: object) -> bytes | None:
    """Write a value of any size as JSON; what is no JSON is named by its type.

    None where orjson refuses: cycles, lone surrogates, integers beyond 64 bits.
    """
    try:
        return orjson.dumps(value, default=_whole_default, option=_QUICK_OPTIONS)
    except Exception:  # noqa: BLE001 - an object of the application may do anything
        return None


def _whole_default(value: object) -> object:
    try:
        return _quick_default(value)
    except TypeError:
        return f"<{_type_name(value)}>"


class _Walk:
    def __init__(self, max_bytes: int, redact: Callable[[str], str]) -> None:
        self.left_bytes = max_bytes
        self.redact = redact
        self.truncated = False
        self._open: set[int] = set()  # ids of the containers being entered: a repeat is a cycle

    def visit(self, value: object, depth: int) -> JSONValue:
        kind = type(value)
        if kind is str:
            return self.text(value)  # type: ignore[arg-type]
        self.left_bytes -= _NODE_BYTES
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if value in _INT64 else _large(value)  # type: ignore[arg-type]
        if kind is float:
            return value if math.isfinite(value) else _float_name(value)  # type: ignore[arg-type]
        try:
            return self.enter(value, kind, depth)
        except Exception as error:  # noqa: BLE001 - an object of the application may do anything
            return f"<{_type_name(value)}: {type(error).__name__}>"

    def text(self, value: str) -> str:
        if value.isascii():
            size = len(value)
        else:
            encoded = utf8(value)
            size = len(encoded)
            value = encoded.decode()
        left = self.left_bytes
        self.left_bytes = left - size - _NODE_BYTES
        return value if size <= left else self.cut(value, size, max(left, 0))

    def cut(self, value: str, size: int, keep_bytes: int) -> str:
        self.truncated = True
        encoded = value.encode()
        kept = self.beginning(encoded, keep_bytes)
        return f"{kept}… [cut: {size} bytes, sha256 {sha256(encoded).hexdigest()}]"

    def beginning(self, encoded: bytes, keep_bytes: int) -> str:
        """Give the beginning of a text, redacted first: half a secret no longer looks like one."""
        seen = encoded[: keep_bytes + _REDACTION_OVERLAP_BYTES]
        redacted = self.redact(seen.decode(errors="ignore")).encode()
        if len(seen) < len(encoded):
            # Redaction may have made it shorter than it takes away: what ends here may be half.
            keep_bytes = min(keep_bytes, max(0, len(redacted) - _REDACTION_OVERLAP_BYTES))
        return redacted[:keep_bytes].decode(errors="ignore")

    def enter(self, value: object, kind: type, depth: int) -> JSONValue:
        if kind is not dict and kind is not list:
            if isinstance(value, (str, int, float, enum.Enum)):
                return self.visit(_plain(value), depth)
            if isinstance(value, (bytes, bytearray, memoryview)):
                return f"<{len(value)} bytes>"
            if isinstance(value, _ATOMS):
                return self.text(_atom(value))
        if id(value) in self._open:
            return f"<cycle: {_type_name(value)}>"
        if depth >= MAX_DEPTH:
            return f"<nested too deep: {_type_name(value)}>"
        self._open.add(id(value))
        try:
            return self.container(value, depth + 1)
        finally:
            self._open.discard(id(value))

    def container(self, value: object, depth: int) -> JSONValue:
        if isinstance(value, Mapping):
            return self.mapping(value, depth)
        if isinstance(value, _LISTS):
            return self.sequence(value, depth)
        members = _fields(value)
        if members is not None:
            return self.mapping(members, depth)
        return self.text(self.described(value))

    def described(self, value: object) -> str:
        text = _described(value)
        if len(text) <= _MAX_REPR_BYTES:
            return text
        return self.beginning(utf8(text), _MAX_REPR_BYTES)

    def mapping(self, value: Mapping[Any, object], depth: int) -> dict[str, JSONValue]:
        tree: dict[str, JSONValue] = {}
        for key, member in value.items():
            if self.left_bytes <= 0:
                return self.rest_of(tree, len(value))
            name = self.text(key if type(key) is str else self.key(key))
            tree[name] = self.visit(member, depth)
        return tree

    def key(self, key: object) -> str:
        """Name a dictionary key as JSON would, or by its repr (tuple keys are common in graphs)."""
        if key is None or isinstance(key, bool):
            return "null" if key is None else str(key).lower()
        return str(key) if isinstance(key, (str, int, float, *_ATOMS)) else self.described(key)

    def rest_of(self, tree: dict[str, JSONValue], size: int) -> dict[str, JSONValue]:
        self.truncated = True
        tree["…"] = f"[cut: {size - len(tree)} of {size} entries]"
        return tree

    def sequence(self, value: Any, depth: int) -> list[JSONValue]:
        tree: list[JSONValue] = []
        for member in value:
            if self.left_bytes <= 0:
                self.truncated = True
                tree.append(f"… [cut: {len(value) - len(tree)} of {len(value)} entries]")
                break
            tree.append(self.visit(member, depth))
        return tree


def utf8(text: str) -> bytes:
    """Encode a text; a lone surrogate, which has no encoding, becomes U+FFFD.

    Without this the exporter drops the whole attribute (or the whole batch).
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        paired = text.encode("utf-16-le", "surrogatepass")
        return paired.decode("utf-16-le", "replace").encode()


def _large(value: int) -> str:
    """Write a number beyond 64 bits; Python refuses to write one of thousands of digits."""
    bits = value.bit_length()
    return str(value) if bits < 2_000 else f"<int of {bits} bits>"


def _float_name(value: float) -> str:
    """Write what JSON cannot say: RFC 8259 section 6 has no NaN and no infinity."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _plain(value: Any) -> Any:
    """Take the plain value out of an Enum member or a subclass of str, int or float."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if isinstance(value, int) else float(value)


def _atom(value: Any) -> str:
    return str(value.isoformat()) if isinstance(value, (date, time)) else str(value)


def _fields(value: Any) -> Mapping[str, object] | None:
    """Read the fields of a dataclass or a pydantic model without calling any of its code."""
    if isinstance(value, type):
        return None
    kind: Any = type(value)
    read = _reader(kind)
    return None if read is None else read(value)


@lru_cache(maxsize=512)
def _reader(kind: Any) -> Callable[[Any], Mapping[str, object]] | None:
    """Choose how the fields of a class are read; asking a pydantic class costs 1 µs each time."""
    if dataclasses.is_dataclass(kind):
        return _dataclass_fields
    if hasattr(kind, "model_fields"):
        ours = kind.__module__.startswith("langchain_core.")
        return _filled_fields if ours else _public_fields
    return None


def _dataclass_fields(value: Any) -> Mapping[str, object]:
    return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}


def _filled_fields(value: Any) -> Mapping[str, object]:
    """Leave out what LangChain's own models (messages, documents) do not fill in."""
    return {
        name: member
        for name, member in vars(value).items()
        if member is not None and (type(member) not in _CONTAINERS or member)
    }


def _public_fields(value: Any) -> Mapping[str, object]:
    return {name: member for name, member in vars(value).items() if not name.startswith("_")}


def _described(value: object) -> str:
    if type(value).__repr__ is object.__repr__:
        return f"<{_type_name(value)}>"
    return repr(value)


def _type_name(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
