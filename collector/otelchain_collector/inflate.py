"""Decompress a request body without ever holding more than the limit; pure."""

import zlib

# A piece of a gzip bomb is at most this large before the limit is looked at.
_PIECE_BYTES = 1024 * 1024
_READ_BYTES = 64 * 1024
# Opening one costs microseconds and takes 20 bytes to ask for; nobody honest sends many.
_MAX_MEMBERS = 1_000
_HEADER_BYTES = 10

_GZIP = zlib.MAX_WBITS | 16
_ZLIB = zlib.MAX_WBITS
_RAW = -zlib.MAX_WBITS


class TooLargeError(Exception):
    """The body is larger than the limit once decompressed."""


class NotCompressedError(Exception):
    """The body is not what its Content-Encoding says, or it ends too early."""


def inflate(body: bytes, encoding: str, limit_bytes: int) -> bytes:
    """Decompress a body.

    Args:
        body: What arrived.
        encoding: ``gzip`` (one member or several) or ``deflate`` (zlib, or raw as some send it).
        limit_bytes: The largest result; at the first byte more, decompression stops.

    Raises:
        TooLargeError: The result would be larger than the limit.
        NotCompressedError: The body is broken or cut short.
    """
    view = memoryview(body)
    try:
        if encoding == "gzip":
            return _members(view, limit_bytes)
        text, length = _stream(view, _ZLIB if _has_zlib_header(body) else _RAW, limit_bytes)
    except zlib.error as error:
        raise NotCompressedError(f"the body is not valid {encoding}: {error}") from error
    if length < len(body):
        raise NotCompressedError("there is more behind the end of the compressed body")
    return text


def _members(body: memoryview, limit_bytes: int) -> bytes:
    # RFC 1952: a gzip file is a series of members. Zeros after the last one are padding.
    members: list[bytes] = []
    while not members or not _is_padding(body):
        if len(members) == _MAX_MEMBERS:
            raise NotCompressedError(f"the body has more than {_MAX_MEMBERS} gzip members")
        member, length = _stream(body, _GZIP, limit_bytes)
        members.append(member)
        limit_bytes -= len(member)
        body = body[length:]
    return b"".join(members)


def _is_padding(body: memoryview) -> bool:
    return not any(body[:_HEADER_BYTES]) and not bytes(body).strip(b"\0")


def _stream(body: memoryview, window_bits: int, limit_bytes: int) -> tuple[bytes, int]:
    """Decompress one stream from the start of the body; return the result and its length there."""
    decompressor = zlib.decompressobj(window_bits)
    pieces = []
    position, left_bytes = 0, limit_bytes
    while not decompressor.eof:
        # In pieces on both sides: zlib copies whatever it was given and did not use.
        read = body[position : position + _READ_BYTES]
        piece = decompressor.decompress(read, min(_PIECE_BYTES, left_bytes + 1))
        rest = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
        if not piece and len(rest) == len(read) and not decompressor.eof:
            raise NotCompressedError("the compressed body ends too early")
        position += len(read) - len(rest)
        left_bytes -= len(piece)
        if left_bytes < 0:
            raise TooLargeError
        pieces.append(piece)
    return b"".join(pieces), position


def _has_zlib_header(body: bytes) -> bool:
    # RFC 1950: method 8 in the low half of the first byte, and a multiple of 31 in the first two.
    return len(body) >= 2 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
