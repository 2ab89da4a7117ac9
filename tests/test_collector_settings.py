"""Settings of the collector: one definition, shown and read alike."""

import click
import pytest

from otelchain_collector.command import collector_command
from otelchain_collector.errors import CollectorError
from otelchain_collector.settings import (
    Address,
    CollectorSettings,
    parse_address,
    parse_bytes,
    setting_texts,
)

MIB = 1024 * 1024


def test_every_setting_has_an_option_and_a_variable_of_its_own() -> None:
    options = {option.name: option for option in collector_command.params}
    on_command_line = [setting for setting in setting_texts() if setting.option]

    for setting in on_command_line:
        assert options[setting.name].opts == [setting.option]
        assert options[setting.name].envvar == setting.variable
    assert len({setting.variable for setting in on_command_line}) == len(options)


def test_a_secret_cannot_be_given_on_a_command_line_and_is_not_shown() -> None:
    [secret] = [setting for setting in setting_texts() if not setting.option]

    assert secret.variable == "OTELCHAIN_COLLECTOR_TOKEN"
    assert "hunter2" not in repr(CollectorSettings(token="hunter2"))


def test_the_command_without_options_has_the_defaults_of_the_settings() -> None:
    context = collector_command.make_context("collector", [])

    assert CollectorSettings(**context.params) == CollectorSettings()


@pytest.mark.parametrize("option", ["--query-seconds", "--request-seconds"])
@pytest.mark.parametrize("text", ["0", "86401", "99999999999", "1.5"])
def test_a_time_that_no_timer_can_keep_is_refused(option: str, text: str) -> None:
    with pytest.raises(click.BadParameter):
        collector_command.make_context("collector", [option, text])


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("64MiB", 64 * MIB), ("64mib", 64 * MIB), ("1 GB", 10**9), ("5k", 5000), ("7B", 7)],
)
def test_a_size_may_have_a_unit(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "MiB", "1TB", "٣"])
def test_a_size_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:4317", ("127.0.0.1", 4317)),
        ("127.9.9.9:0", ("127.9.9.9", 0)),
        ("localhost:1", ("localhost", 1)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_loopback_addresses_are_accepted(text: str, address: tuple[str, int]) -> None:
    parsed = parse_address(text, "--http", allow_remote=False)

    assert parsed == address
    assert str(parsed) == text


@pytest.mark.parametrize("text", ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "collector:1"])
def test_other_addresses_need_permission(text: str) -> None:
    with pytest.raises(CollectorError, match="--allow-remote"):
        parse_address(text, "--http", allow_remote=False)

    assert isinstance(parse_address(text, "--http", allow_remote=True), Address)
