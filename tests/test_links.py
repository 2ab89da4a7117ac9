"""A database behind a symbolic link: everything lies beside the file that the link leads to."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from collector_process import RunningCollector, ask, readiness
from otelchain_collector import discovery
from otelchain_collector.salvage import log_of, logs_laid_aside
from otlp_clients import send
from otlp_requests import request, span, text
from stored_runs import asked

Start = Callable[..., RunningCollector]


@pytest.fixture(name="real")
def _real(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "real.duckdb"


@pytest.fixture(name="link")
def _link(tmp_path: Path, real: Path) -> Path:
    (tmp_path / "link").mkdir()
    link = tmp_path / "link" / "link.duckdb"
    link.symlink_to(real)  # Which is not there yet.
    return link


def files(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir())


def log_bytes(collector: RunningCollector) -> float:
    """Return the size of the log, as the collector sees it."""
    metrics = ask(collector, "GET", "/metrics", b"", {})[2].decode()
    [measured] = re.findall(r"^otelchain_wal_bytes (\S+)$", metrics, re.MULTILINE)
    return float(measured)


def sent(collector: RunningCollector, count: int = 10) -> None:
    spans = [span(attributes=[text("k", os.urandom(5_000).hex())]) for _ in range(count)]
    assert send(collector, "traces", "grpc", request(*spans)).ok


@pytest.mark.parametrize("name", ["link", "real"])
def test_a_collector_started_on_a_link_is_found_by_either_name(
    name: str, link: Path, real: Path, start_collector: Start
) -> None:
    collector = start_collector(link, "--redaction", "off")
    sent(collector)

    path = {"link": link, "real": real}[name]
    answer = asked("sql", "SELECT count(*) FROM spans", "--database", str(path), "--format", "csv")

    assert answer.stdout.split()[-1:] == [b"10"], answer.stderr
    assert files(real) == ["real.duckdb", "real.duckdb.collector.json", "real.duckdb.wal"]
    assert files(link) == ["link.duckdb"]
    assert discovery.read(link) == discovery.read(real)


def test_the_log_behind_a_link_is_measured_examined_and_laid_aside(
    link: Path, real: Path, start_collector: Start
) -> None:
    collector = start_collector(link, "--redaction", "off")
    sent(collector, 100)
    size = real.with_name("real.duckdb.wal").stat().st_size
    assert log_bytes(collector) == size
    collector.kill()
    with log_of(link).open("r+b") as log:
        log.seek(size // 2)
        log.write(b"damaged")

    collector = start_collector(link)

    [loss] = readiness(collector)["log_losses"]
    assert loss["reason"] == "damaged"
    [aside] = logs_laid_aside(link)
    assert aside.parent == real.parent
    assert files(link) == ["link.duckdb"]


def test_a_snapshot_named_by_a_link_is_written_where_it_leads(
    link: Path, real: Path, tmp_path: Path, start_collector: Start
) -> None:
    collector = start_collector(tmp_path / "t.duckdb")
    sent(collector)

    by_collector = asked("snapshot", str(link), "--endpoint", collector.http)
    assert collector.stop() == 0
    by_file = asked("snapshot", str(link), "--database", str(tmp_path / "t.duckdb"))

    assert (by_collector.returncode, by_file.returncode) == (0, 0)
    assert (link.is_symlink(), files(real)) == (True, ["real.duckdb"])


def test_a_link_laid_elsewhere_does_not_mislead_the_collector_that_runs(
    link: Path, real: Path, tmp_path: Path, start_collector: Start
) -> None:
    collector = start_collector(link)
    link.unlink()
    link.symlink_to(tmp_path / "other.duckdb")
    sent(collector)

    assert log_bytes(collector) > 0
    assert collector.stop() == 0
    assert files(real) == ["real.duckdb"]
    assert not (tmp_path / "other.duckdb").exists()
