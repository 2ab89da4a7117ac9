"""Decompression: every form that clients send, and none that costs more than the limit."""

import gzip
import os
import tracemalloc
import zlib

import pytest

from otelchain_collector.inflate import NotCompressedError, TooLargeError, inflate

TEXT = b"seven bytes and more " * 1_000
MIB = 1024 * 1024


def raw_deflate(body: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()


@pytest.mark.parametrize(
    ("encoding", "body", "expected"),
    [
        ("gzip", gzip.compress(TEXT, mtime=0), TEXT),
        ("gzip", gzip.compress(b"", mtime=0), b""),
        (
            "gzip",
            gzip.compress(b"one", mtime=0)
            + gzip.compress(b"two", mtime=0)
            + gzip.compress(TEXT, mtime=0),
            b"onetwo" + TEXT,
        ),
        ("gzip", gzip.compress(TEXT, mtime=0) + bytes(512), TEXT),
        ("deflate", zlib.compress(TEXT), TEXT),
        ("deflate", raw_deflate(TEXT), TEXT),
    ],
)
def test_a_body_is_decompressed(encoding: str, body: bytes, expected: bytes) -> None:
    assert inflate(body, encoding, MIB) == expected


def test_a_body_that_does_not_compress_is_read_whole() -> None:
    body = os.urandom(3 * MIB)

    assert inflate(gzip.compress(body), "gzip", 3 * MIB) == body


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_the_limit_is_the_size_after_decompression(encoding: str) -> None:
    body = gzip.compress(TEXT, mtime=0) if encoding == "gzip" else zlib.compress(TEXT)

    assert inflate(body, encoding, len(TEXT)) == TEXT
    with pytest.raises(TooLargeError):
        inflate(body, encoding, len(TEXT) - 1)


def test_the_limit_counts_all_members() -> None:
    with pytest.raises(TooLargeError):
        inflate(gzip.compress(TEXT, mtime=0) * 2, "gzip", 2 * len(TEXT) - 1)


def test_a_bomb_is_stopped_at_the_limit() -> None:
    bomb = gzip.compress(bytes(300 * MIB), 9)  # 300 KB
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            inflate(bomb, "gzip", 4 * MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 12 * MIB


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b""),
        ("gzip", b"plain text"),
        ("gzip", gzip.compress(TEXT, mtime=0)[:-3]),
        ("gzip", gzip.compress(TEXT, mtime=0)[:20]),
        ("gzip", gzip.compress(TEXT, mtime=0) + b"trailing text"),
        ("gzip", gzip.compress(TEXT, mtime=0) + bytes(20) + b"trailing text"),
        ("gzip", gzip.compress(b"", mtime=0) * 1_001),
        ("gzip", zlib.compress(TEXT)),
        ("deflate", b""),
        ("deflate", zlib.compress(TEXT)[:-3]),
        ("deflate", zlib.compress(TEXT) + b"trailing text"),
        ("deflate", zlib.compress(TEXT) * 2),
        ("deflate", raw_deflate(TEXT) + b"\0"),
        ("deflate", gzip.compress(TEXT, mtime=0)),
    ],
)
def test_a_broken_body_is_told_apart(encoding: str, body: bytes) -> None:
    with pytest.raises(NotCompressedError):
        inflate(body, encoding, MIB)
