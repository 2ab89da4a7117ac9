"""The command on a terminal of a given size, with what it writes there."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time

STYLES = re.compile(r"\x1b\[[0-9;]*m")
# What the command sends while it waits on a busy machine, and to clear the line again.
WAITING = re.compile(r"\rwaiting for[^\r\x1b]*\x1b\[K|\r\x1b\[K")


def on_terminal(
    columns: int,
    *arguments: str,
    lines: int = 50,
    interrupt_after: str = "",
    code: int = 0,
    **variables: str,
) -> str:
    """Return what the command writes to a terminal.

    Args:
        columns: Width of the terminal.
        arguments: Of the command.
        lines: Height of the terminal.
        interrupt_after: Text after which Ctrl-C is pressed.
        code: The exit code that it must end with.
        variables: Of the environment.
    """
    leader, follower = pty.openpty()
    fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    environment = {name: text for name, text in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        [sys.executable, "-c", "from otelchain.cli import main; main()", *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**environment, "TERM": "xterm-256color", **variables},
    )
    os.close(follower)
    written = b""
    # On Linux, reading a terminal that the last writer has left is an error.
    try:
        while chunk := os.read(leader, 65536):
            written += chunk
            if interrupt_after and interrupt_after.encode() in written:
                interrupt_after = ""
                time.sleep(0.1)
                process.send_signal(signal.SIGINT)
    except OSError:
        pass
    os.close(leader)
    assert process.wait(30) == code, written.decode()
    return written.decode()
