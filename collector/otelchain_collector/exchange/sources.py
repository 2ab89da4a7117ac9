"""Files to import → JSON documents, each with its place; compressed, standard input, long lines."""

import gzip
import io
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa

from otelchain_collector.errors import CollectorError

#: The longest line, and the largest document of several lines.
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
_GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
_PARQUET = b"PAR1"
_BOM = b"\xef\xbb\xbf"


class ImportFailed(CollectorError):  # noqa: N818 - an outcome, told in one line
    """A file cannot be imported; the text names it, says why and what to do."""


class Document(NamedTuple):
    """One JSON document of a file.

    Attributes:
        file: As the user named it.
        line: Where it starts, from 1.
        tree: What it says; None when ``fault`` says why it cannot be read.
        fault: Why not.
    """

    file: str
    line: int
    tree: Any
    fault: str | None = None


class Source(NamedTuple):
    """A file to import.

    Attributes:
        name: What it is called in messages.
        path: Where it is; None for standard input.
    """

    name: str
    path: Path | None


def source(argument: str) -> Source:
    """Return the file that an argument names; ``-`` is standard input."""
    return Source("standard input", None) if argument == "-" else Source(argument, Path(argument))


def is_parquet(path: Path) -> bool:
    """Tell whether a file begins as Parquet does; one that cannot be read does not."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(_PARQUET)) == _PARQUET
    except OSError:
        return False


def kept(file: Source, folder: Path) -> Source:
    """Return what can be read several times: the file, or a copy of standard input in a folder."""
    if file.path is not None:
        return file
    copy = folder / "standard-input"
    with copy.open("wb") as target:
        shutil.copyfileobj(sys.stdin.buffer, target)
    return file._replace(path=copy)


def documents(
    file: Source, load: Callable[[bytes], Any], advance: Callable[[int], None]
) -> Iterator[Document]:
    """Yield the documents of a file: one per line, or the whole file as one.

    Args:
        file: The file.
        load: Reads one document; raises ValueError or RecursionError.
        advance: Is told how many bytes were read from the file.

    Raises:
        ImportFailed: The file cannot be read, or is of another kind.
    """
    with opened(file, advance) as stream:
        if is_binary(stream):
            raise ImportFailed(
                f"{file.name} is not JSON; files of OTLP in protobuf are for: otelchain import "
                "otlp-proto"
            )
        yield from documents_in(file.name, stream, load)


def documents_in(
    name: str, stream: io.BufferedReader, load: Callable[[bytes], Any]
) -> Iterator[Document]:
    """Yield the documents of an opened file, as `documents` does."""
    for number, line in enumerate(_lines(stream), 1):
        text = line.removeprefix(_BOM) if number == 1 else line
        if not text.strip():
            continue
        found = document(name, number, text, load)
        if number == 1 and found.fault and not text.rstrip().endswith((b"}", b"]")):
            yield from _of_several_lines(found, text, stream, load)
            return
        yield found


def is_binary(stream: io.BufferedReader) -> bool:
    """Tell whether a file is no text; a message of protobuf starts as a line feed and a length."""
    head = stream.peek(4)[:4]
    is_text = head.strip()[:1] in (b"", b"{", b"[")
    return b"" < head[:1] < b"\t" or (head[:1] == b"\n" and not is_text)


def document(name: str, number: int, text: bytes, load: Callable[[bytes], Any]) -> Document:
    """Read one document."""
    if len(text) > MAX_DOCUMENT_BYTES:
        return Document(name, number, None, f"longer than {MAX_DOCUMENT_BYTES >> 20} MiB")
    try:
        return Document(name, number, load(text))
    except (ValueError, RecursionError) as error:
        return Document(name, number, None, _fault(error))


def _of_several_lines(
    first: Document, start: bytes, stream: io.BufferedReader, load: Callable[[bytes], Any]
) -> Iterator[Document]:
    """Yield the one document that a file is; when it is none, its lines."""
    rest = stream.read(MAX_DOCUMENT_BYTES) + stream.readline(MAX_DOCUMENT_BYTES)
    try:
        whole = load(start + rest)
    except (ValueError, RecursionError):
        yield first
        lines = chain(_lines(io.BytesIO(rest)), _lines(stream))
        for number, line in enumerate(lines, 2):
            if line.strip():
                yield document(first.file, number, line, load)
        return
    for tree in whole if isinstance(whole, list) else [whole]:
        yield Document(first.file, 1, tree)


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield lines; of one that is too long, the start, and never hold more."""
    while line := stream.readline(MAX_DOCUMENT_BYTES + 1):
        yield line
        while len(line) > MAX_DOCUMENT_BYTES and not line.endswith(b"\n"):
            line = stream.readline(MAX_DOCUMENT_BYTES + 1)


def _fault(error: Exception) -> str:
    # What a parser says after a colon may quote the text, which may be content.
    why = "nested too deep" if isinstance(error, RecursionError) else str(error).split(": ")[0]
    return f"not JSON: {why}"


@contextmanager
def opened(file: Source, advance: Callable[[int], None]) -> Iterator[io.BufferedReader]:
    """Open a file, decompressed; ``advance`` is told how many bytes were read from it.

    Raises:
        ImportFailed: It cannot be read, or is Parquet.
    """
    name, path = file
    try:
        with sys.stdin.buffer if path is None else path.open("rb") as raw:
            counted = io.BufferedReader(_Counted(raw, advance), 1024 * 1024)
            stream: Any = counted
            if counted.peek(2).startswith(_GZIP):
                unpacked: Any = gzip.GzipFile(fileobj=counted)
                stream = io.BufferedReader(unpacked, 1024 * 1024)
            elif counted.peek(4).startswith(ZSTD):
                unpacked = pa.CompressedInputStream(counted, "zstd")
                stream = io.BufferedReader(unpacked, 1024 * 1024)
            _check_kind(name, stream.peek(4)[:4])
            yield stream
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ImportFailed(f"cannot read {name}: {why}") from error


def _check_kind(name: str, head: bytes) -> None:
    if head == _PARQUET:
        raise ImportFailed(
            f"{name} is a Parquet file; use: otelchain import parquet, or, for a bulk export of "
            "LangSmith, otelchain import langsmith with its name (not -)"
        )


class _Counted(io.RawIOBase):
    """Tells how many bytes are read."""

    def __init__(self, raw: Any, advance: Callable[[int], None]) -> None:
        self._raw = raw
        self._advance = advance

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # What a pipe has now; read() would wait until the buffer is full.
        content = self._raw.read1(len(buffer))
        buffer[: len(content)] = content
        self._advance(len(content))
        return len(content)
