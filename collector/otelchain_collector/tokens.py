"""Bearer tokens and what each may do; from a variable and a file that is read again on change."""

import hashlib
import hmac
import logging
import re
import time
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Final, Literal, get_args

from otelchain_collector.errors import CollectorError

Permission = Literal["write", "read", "sql", "metrics", "maintain"]
PERMISSIONS: Final[frozenset[str]] = frozenset(get_args(Permission))

# RFC 6750, 2.1. Shorter ones can be guessed.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{16,}=*")
_READ_AGAIN_SECONDS: Final = 1.0
_WORLD_READABLE: Final = 0o004

_logger = logging.getLogger(__name__)


class Verdict(Enum):
    """What a request with this token, for this permission, gets."""

    ALLOWED = "allowed"
    MISSING = "missing"
    SEVERAL = "several"
    INVALID = "invalid"
    FORBIDDEN = "forbidden"


class Tokens:
    """The tokens that are valid now; without any, everybody may do everything.

    Args:
        token: One that may do everything; empty for none.
        path: The file; None for none.

    Raises:
        CollectorError: The file cannot be read, or a token cannot be used.
    """

    def __init__(self, token: str = "", path: Path | None = None) -> None:
        self._path = path
        self._fixed = _digests([(token, PERMISSIONS)], "OTELCHAIN_COLLECTOR_TOKEN") if token else {}
        self._from_file: dict[bytes, frozenset[str]] = {}
        self._stamp: tuple[int, ...] = ()
        self._looked_at = time.monotonic()
        if path is not None:
            self._stamp = _stamp(path)
            self._from_file = _read(path)
        self.required = bool(token) or path is not None

    def check(self, authorization: tuple[str, ...], permission: Permission | None) -> Verdict:
        """Judge a request's ``Authorization`` headers.

        Args:
            authorization: Their values. Of two, a proxy might have judged the other one.
            permission: What the request needs; None when any valid token will do.
        """
        if not self.required:
            return Verdict.ALLOWED
        if len(authorization) > 1:
            return Verdict.SEVERAL
        token = _bearer(authorization)
        if not token:
            return Verdict.MISSING
        allowed = self._permissions(token)
        if allowed is None:
            return Verdict.INVALID
        return Verdict.ALLOWED if permission is None or permission in allowed else Verdict.FORBIDDEN

    def identity(self, authorization: tuple[str, ...]) -> bytes | None:
        """Return a digest by which one sender is told from another; None without tokens."""
        return _digest(_bearer(authorization)) if self.required else None

    def _permissions(self, token: str) -> frozenset[str] | None:
        self._read_again()
        digest = _digest(token)
        found = None
        # Every token is compared in full: how long it takes says nothing about any of them.
        for known, permissions in (*self._fixed.items(), *self._from_file.items()):
            if hmac.compare_digest(known, digest):
                found = permissions
        return found

    def _read_again(self) -> None:
        if self._path is None or time.monotonic() - self._looked_at < _READ_AGAIN_SECONDS:
            return
        self._looked_at = time.monotonic()
        try:
            stamp = _stamp(self._path)
            if stamp != self._stamp:
                self._from_file = _read(self._path)
                self._stamp = stamp
                _logger.info("read %d tokens from %s", len(self._from_file), self._path)
        except CollectorError as error:
            _logger.error("the tokens from before stay valid: %s", error)


def _bearer(authorization: tuple[str, ...]) -> str:
    """Return the token of a header; empty when there is none."""
    scheme, _, token = "".join(authorization).strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> dict[bytes, frozenset[str]]:
    try:
        lines = path.read_text("utf-8").splitlines()
        world_readable = path.stat().st_mode & _WORLD_READABLE
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    if world_readable:
        _logger.warning(
            "every user of this machine can read the tokens in %s; run: chmod 600", path
        )
    entries = []
    for number, line in enumerate(lines, start=1):
        token, *words = line.partition("#")[0].split() or [""]
        if token:
            entries.append((token, _permissions_of(words, f"{path}, line {number}")))
    if not entries:
        raise CollectorError(f"there is no token in {path}; write one a line")
    return _digests(entries, str(path))


def _permissions_of(words: list[str], place: str) -> frozenset[str]:
    unknown = sorted(set(words) - PERMISSIONS)
    if unknown:
        # Not the word itself: it may be the rest of a token with a space in it.
        raise CollectorError(
            f"{place}: what a token may do is any of {', '.join(get_args(Permission))}"
        )
    return frozenset(words) or PERMISSIONS


def _digests(
    entries: Iterable[tuple[str, frozenset[str]]], place: str
) -> dict[bytes, frozenset[str]]:
    digests = {}
    for token, permissions in entries:
        if not _TOKEN.fullmatch(token):
            raise CollectorError(
                f"a token in {place} cannot be used: it needs 16 or more of the characters "
                "A-Z a-z 0-9 . _ ~ + / -; make one with: "
                "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
            )
        digests[_digest(token)] = permissions
    return digests


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _unreadable(path: Path, error: Exception) -> CollectorError:
    why = getattr(error, "strerror", None) or "it is not UTF-8 text"
    return CollectorError(f"cannot read --token-file {path}: {why}")
