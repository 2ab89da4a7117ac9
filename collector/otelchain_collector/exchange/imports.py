"""Files of each format → requests (for delivery); what cannot be read is a complaint."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from otelchain_collector.exchange.delivery import Complain, Request
from otelchain_collector.exchange.langsmith_import import requests_of
from otelchain_collector.exchange.langsmith_parquet import documents_in_parquet
from otelchain_collector.exchange.otlp_binary_files import requests_in_binary
from otelchain_collector.exchange.otlp_json_files import requests_in
from otelchain_collector.exchange.parquet_files import count_rows, requests_in_parquet
from otelchain_collector.exchange.sources import (
    Document,
    ImportFailed,
    Source,
    documents,
    documents_in,
    is_binary,
    is_parquet,
    opened,
)
from otelchain_collector.json_document import load_json

# Of more than 4,300 digits Python makes no integer.
_MAX_INTEGER_CHARS: Final = 4_000

#: Is told how many bytes of the files were read, or how many rows.
Advance = Callable[[int], None]
Reader = Callable[[Iterable[Source], Complain, Advance], Iterator[Request]]


def otlp(files: Iterable[Source], complain: Complain, advance: Advance) -> Iterator[Request]:
    """Read OTLP as the OpenTelemetry Collector's file exporter writes it, JSON or binary."""
    for file in files:
        with opened(file, advance) as stream:
            if is_binary(stream):
                yield from requests_in_binary(file.name, stream, complain)
                continue
            for document in documents_in(file.name, stream, load_json):
                yield from requests_in(document, complain)


def langsmith(files: Iterable[Source], complain: Complain, advance: Advance) -> Iterator[Request]:
    """Read runs of LangSmith; the halves of a run may lie in several files.

    JSON lines, or a bulk export: Parquet files, or the folder that holds them at any depth.
    """
    found = (each for file in files for each in _runs(file, advance))
    yield from requests_of(found, complain)


def _runs(file: Source, advance: Advance) -> Iterator[Document]:
    for each in _files(file):
        if each.path is not None and is_parquet(each.path):
            yield from documents_in_parquet(each.name, each.path, advance)
        else:
            yield from documents(each, _run, advance)


def _run(text: bytes) -> Any:
    """Read a run; a number that Python does not read stays as its digits."""
    return json.loads(text, parse_int=_integer)


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MAX_INTEGER_CHARS else digits


def _files(file: Source) -> list[Source]:
    """Return a file, or the Parquet files of a folder: a bulk export has one folder per day."""
    if file.path is None or not file.path.is_dir():
        return [file]
    found = sorted(file.path.rglob("*.parquet"))
    if not found:
        raise ImportFailed(f"there is no .parquet file in the folder {file.name}")
    return [Source(str(path), path) for path in found]


def parquet(files: Iterable[Source], complain: Complain, advance: Advance) -> Iterator[Request]:
    """Read tables that ``export parquet`` wrote; a folder stands for the files in it."""
    del complain  # A file of ours is readable as a whole, or not at all.
    for file in files:
        for path in _parquet_files(file):
            yield from requests_in_parquet(path, advance)


def _parquet_files(file: Source) -> list[Path]:
    if file.path is None:
        raise ImportFailed("Parquet cannot be read from standard input; name a file")
    return [each.path for each in _files(file) if each.path is not None]


def amount(format_name: str, files: Iterable[Source]) -> int:
    """Return how much there is to read, in what ``advance`` counts; 0 when nobody can tell."""
    if format_name == "parquet":
        return sum(count_rows(path) for file in files for path in _parquet_files(file))
    paths = [each.path for file in files for each in _files(file)]
    return (
        sum(path.stat().st_size for path in paths if path and path.is_file()) if all(paths) else 0
    )


READERS: dict[str, Reader] = {
    "otlp-json": otlp,
    "otlp-proto": otlp,
    "langsmith": langsmith,
    "parquet": parquet,
}
