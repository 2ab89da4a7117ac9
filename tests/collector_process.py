"""A real collector process on free ports, for tests; conftest.py makes a fixture of it."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

READY = re.compile(r"otelchain collector ready: database=(.+) grpc=(\S+) http=(\S+)\n")


@dataclass
class RunningCollector:
    """Addresses are HOST:PORT."""

    process: "subprocess.Popen[str]"
    database: Path
    grpc: str
    http: str
    log: Path

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.terminate()
        return self.wait()

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()
        self.wait()

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        code = self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


COLLECTOR = ("-m", "otelchain_collector")


def start(
    database: Path, log: Path, *arguments: str, program: tuple[str, ...] = COLLECTOR
) -> RunningCollector:
    """Start a collector (what Python has to run for it) and wait until it is ready."""
    command = [
        *(sys.executable, *program, "--database", str(database)),
        *("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", *arguments),
    ]
    with log.open("a") as stderr:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=dict(os.environ)
        )
    assert process.stdout is not None
    ready = READY.fullmatch(_first_line(process.stdout))
    assert ready, f"the collector did not start: {log.read_text()}"
    return RunningCollector(process, database, ready[2], ready[3], log)


def ask(
    collector: RunningCollector, method: str, path: str, data: bytes | str, headers: dict[str, str]
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Send one request; return status, headers and body."""
    connection = http.client.HTTPConnection(collector.http, timeout=30)
    connection.request(method, path, data, headers)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, response.headers, content


def hold(collector: RunningCollector, size: int) -> socket.socket:
    """Start a request of which the collector holds so many bytes until the socket is closed."""
    host, port = collector.http.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.sendall(
        b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n" % (size + 1)
    )
    before = readiness(collector)["queue_bytes"]
    connection.sendall(bytes(size))
    wait_for_queue(collector, before + size)
    return connection


def wait_for_queue(collector: RunningCollector, size: int) -> None:
    """Wait until the collector holds exactly so many bytes of requests."""
    for _ in range(1_000):
        if readiness(collector)["queue_bytes"] == size:
            return
        time.sleep(0.01)
    raise AssertionError(f"the queue did not reach {size} bytes: {readiness(collector)}")


def readiness(collector: RunningCollector, token: str = "") -> dict[str, Any]:
    """Return what /readyz says to who shows this token."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"http://{collector.http}/readyz"
    with urllib.request.urlopen(urllib.request.Request(url, None, headers), timeout=30) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


def _first_line(stdout: IO[str]) -> str:
    return stdout.readline()
