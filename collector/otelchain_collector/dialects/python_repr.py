"""Read texts that were written down with Python's repr."""

import re

# No text can make this look back and forth. Character by character it would need 120 bytes of
# memory for each.
_LITERAL = re.compile(r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*\"""", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)", re.DOTALL)
_CONTROL = {"n": "\n", "r": "\r", "t": "\t"}


def literal_at(text: str, position: int) -> str | None:
    """Return the text whose repr starts there; None when none does."""
    match = _LITERAL.match(text, position)
    return _ESCAPE.sub(_character, match[0][1:-1]) if match else None


def whole_literal(text: str) -> str | None:
    """Return the text whose repr this is; None when it is anything else."""
    return _ESCAPE.sub(_character, text[1:-1]) if _LITERAL.fullmatch(text) else None


def _character(escape: re.Match[str]) -> str:
    written = escape[1]
    if len(written) == 1:
        return _CONTROL.get(written, written)
    code = int(written[1:], 16)
    # Half a surrogate pair has no encoding, and stays as it is written.
    return escape[0] if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF else chr(code)
