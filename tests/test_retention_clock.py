"""A clock that is set: what is new is not deleted, and nothing stays for ever."""

import pytest

from otelchain_collector.retention_clock import RetentionClock

HOUR = 3_600
DAY = 24 * HOUR


class Clocks:
    """One that somebody sets, and one that goes on; in seconds."""

    def __init__(self) -> None:
        self.now = 1_000 * DAY
        self.steady = 0

    def go_on(self, seconds: int) -> None:
        self.now += seconds
        self.steady += seconds

    def clock(self) -> RetentionClock:
        return RetentionClock(lambda: self.now * 10**9, lambda: float(self.steady))


@pytest.mark.parametrize("by_seconds", [365 * DAY, -40 * DAY, 61])
def test_a_clock_that_was_set_is_believed_an_hour_later(
    by_seconds: int, caplog: pytest.LogCaptureFixture
) -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clocks.go_on(30)
    assert clock.look() == clocks.now * 10**9

    clocks.now += by_seconds
    clocks.go_on(30)

    assert clock.look() is None
    assert f"{by_seconds:+} s" in caplog.text
    clocks.go_on(HOUR - 1)
    assert clock.look() is None
    clocks.go_on(1)
    assert clock.look() == clocks.now * 10**9
    assert caplog.text.count("was set") == 1


def test_a_clock_that_is_set_back_in_time_never_counted() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clocks.now += 365 * DAY
    assert clock.look() is None

    clocks.now -= 365 * DAY
    clocks.go_on(30)

    assert clock.look() is None
    clocks.go_on(HOUR)
    assert clock.look() == clocks.now * 10**9


def test_a_small_correction_is_no_matter(caplog: pytest.LogCaptureFixture) -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clocks.now += 59

    assert clock.look() == clocks.now * 10**9
    assert not caplog.text


def test_a_machine_that_slept_has_no_clock_that_was_set() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clocks.go_on(3 * DAY)

    assert clock.look() == clocks.now * 10**9


def test_what_this_process_stored_is_no_older_than_the_process() -> None:
    clocks = Clocks()
    clocks.now -= 40 * DAY  # No battery: it starts in the past.
    stored_from = clocks.now * 10**9
    clock = clocks.clock()
    clocks.go_on(30)
    clocks.now += 40 * DAY
    clock.look()

    assert clock.latest_end(30 * DAY) == stored_from
    clocks.go_on(30 * DAY - 31)
    assert clock.latest_end(30 * DAY) == stored_from
    clocks.go_on(1)
    assert clock.latest_end(30 * DAY) is None


def test_what_it_stored_while_its_clock_was_behind_counts_too() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clocks.now -= 5 * DAY
    clock.look()
    clocks.now += 5 * DAY
    clock.look()

    assert clock.latest_end(DAY) == (clocks.now - 5 * DAY) * 10**9
