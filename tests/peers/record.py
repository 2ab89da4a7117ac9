"""Record what real peers send for one application: ``cd tests; python -m peers.record [NAME…]``.

Makes an environment for each peer, runs the application in it (emit.py) against a capture server,
and writes the requests into recorded/NAME/. What was installed the last time is installed again;
after ``--upgrade`` the newest that fits is. Needs a package index and no key.
"""

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from peers.capture import captured
from peers.known import PEERS, Peer

HERE = Path(__file__).parent


def record(peer: Peer, upgrade: bool) -> None:
    """Write the recording of one peer anew."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch, "environment")
        pinned = peer.folder / "constraints.txt"
        python = _install(peer, environment, None if upgrade else pinned)
        with captured() as (endpoint, bodies):
            _run(peer, python, Path(scratch), endpoint)
        names = {
            str(environment.resolve()): "/app/venv",
            str(environment): "/app/venv",
            str(HERE): "/app",
            scratch: "/app",
            sys.base_prefix: "/usr",
        }
        peer.folder.mkdir(parents=True, exist_ok=True)
        for old in peer.folder.glob("*.pb.gz"):
            old.unlink()
        for number, body in enumerate(bodies):
            file = peer.folder / f"{number}.pb.gz"
            file.write_bytes(gzip.compress(_without_paths(body, names), mtime=0))
        pinned.write_text(_installed(python))


def _install(peer: Peer, environment: Path, pinned: Path | None) -> Path:
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    constraints = ["--constraint", str(pinned)] if pinned and pinned.exists() else []
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *constraints, *peer.requirements], check=True)
    return python


def _installed(python: Path) -> str:
    command = [python, "-m", "pip", "--disable-pip-version-check", "freeze"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _run(peer: Peer, python: Path, directory: Path, endpoint: str) -> None:
    # Nothing of this machine: no variables, no home, no repository around the working directory.
    variables = {
        "PATH": os.defpath,
        "HOME": str(directory),
        "OTEL_SERVICE_NAME": "my-app",
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        **peer.variables,
    }
    command = [python, HERE / "emit.py", peer.attach]
    subprocess.run(command, check=True, env=variables, cwd=directory)


def _without_paths(body: bytes, names: dict[str, str]) -> bytes:
    """Replace the paths in stack traces; nothing else of a request is changed."""
    request = ExportTraceServiceRequest.FromString(body)
    for message in _messages(request):
        if isinstance(message, AnyValue) and message.HasField("string_value"):
            message.string_value = _renamed(message.string_value, names)
        elif isinstance(message, AnyValue) and message.HasField("bytes_value"):
            text = message.bytes_value.decode()
            message.bytes_value = _renamed(text, names).encode()
        elif isinstance(message, Status):
            message.message = _renamed(message.message, names)
    return request.SerializeToString()


def _messages(message: Message) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if isinstance(value, Message) else value:
                yield from _messages(inner)


def _renamed(text: str, names: dict[str, str]) -> str:
    for path, name in names.items():
        text = text.replace(path, name)
    return text


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PEERS))
    arguments.add_argument("--upgrade", action="store_true", help="ignore the recorded versions")
    chosen = arguments.parse_args()
    for name in chosen.names or PEERS:
        print(f"recording {name}", flush=True)
        record(PEERS[name], chosen.upgrade)
