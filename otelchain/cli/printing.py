"""Text → standard output: whole, in the terminal's encoding, through a pager when it is long."""

import shutil
import sys
from typing import Final

import click

# Read by programs, which expect it whatever the terminal's encoding.
_UTF_8: Final = frozenset({"csv", "json", "jsonl", "markdown"})
_CLEAR: Final = "\x1b[2J\x1b[H"


def print_text(text: str, format_name: str, *, pages: bool = False) -> None:
    """Print text; what the terminal's encoding lacks appears as its number.

    Args:
        text: Lines.
        format_name: What they are.
        pages: On a terminal, show what is longer than it in a pager.
    """
    encoding = "utf-8" if format_name in _UTF_8 else sys.stdout.encoding or "utf-8"
    content = text.encode(encoding, "backslashreplace")
    if pages and sys.stdout.isatty() and text.count("\n") >= shutil.get_terminal_size().lines:
        # It adds a line end of its own, and takes colours out where the pager would not show them.
        click.echo_via_pager(content.decode(encoding).removesuffix("\n"))
    else:
        write(content)


def print_screen(text: str, format_name: str) -> None:
    """Print text in place of what the screen shows, cut to its height; without a screen, below."""
    if not sys.stdout.isatty():
        print_text(text, format_name)
        return
    lines = text.splitlines(keepends=True)
    # One line for what is left out, and one for the cursor.
    room = max(shutil.get_terminal_size().lines - 2, 1)
    rest = f"… {len(lines) - room} more lines\n" if len(lines) > room else ""
    print_text(f"{_CLEAR}{''.join(lines[:room])}{rest}", format_name)


def write(content: bytes) -> None:
    """Write all of it on standard output.

    Bytes, since text mode would turn the line ends of CSV into those of the machine; in a loop,
    since with ``PYTHONUNBUFFERED`` one write to a pipe may take only a part.
    """
    sys.stdout.flush()
    rest = memoryview(content)
    while rest:
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()
