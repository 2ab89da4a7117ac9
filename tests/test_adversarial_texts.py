"""No text makes a pattern of Python's engine look at it again and again: the work is linear.

Each pattern of the packages is in one of two lists here: it sees what a client sends, or only what
the operator and the machine itself write. A pattern that takes the square of a text's length needs
minutes for the texts below, and holds the interpreter meanwhile; here it runs into the timeout.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

import otelchain
import otelchain_collector
from otelchain.redaction.places import glob_pattern
from otelchain.redaction.redactor import Redactor
from otelchain_collector.otlp_json import parse_json
from otelchain_collector.otlp_request import MalformedRequestError
from otelchain_collector.signals import SIGNALS, Signal

CHARS = 1024 * 1024
#: Modules of which a pattern sees only what the operator, or the machine itself, writes: options,
#: conditions, policies, messages of DuckDB, names of files.
OURS = {
    *("otelchain.cli.check", "otelchain.cli.completing", "otelchain.cli.condition"),
    *("otelchain.cli.doctor.exporter", "otelchain.reading.times", "otelchain.reading.whole_id"),
    *("otelchain.redaction.paths", "otelchain.redaction.policy_rule", "otelchain.spool.files"),
    *("otelchain.spool.locks", "otelchain_collector.check_query", "otelchain_collector.drafts"),
    *("otelchain_collector.wal", "otelchain_collector.tokens"),
}
#: Patterns that see a part of a text, and how many characters of it at most.
SEE_AT_MOST = {
    "otelchain.redaction.entropy._SOMETHING_ELSE": 32,
    "otelchain.redaction.ip_addresses._ADDRESS_BEFORE": 24,
    "otelchain.redaction.ip_addresses._VERSION_BEFORE": 24,
    "otelchain.redaction.phones._NOT_A_PHONE": 24,
    "otelchain.run_facts._SWITCH": 100,
}
#: Patterns that are only held to the start of a text, or to the whole.
AT_THE_START = {
    *("otelchain.redaction.key_values._PROSE", "otelchain.redaction.entropy._ID_PREFIX"),
    *("otelchain.redaction.entropy._HEX", "otelchain.redaction.entropy._UUID"),
    *("otelchain.redaction.checksums._GLUED_AFTER", "otelchain.redaction.phones._GLUED_AFTER"),
    *(
        "otelchain.redaction.ip_addresses._IN_NUMBERS_AFTER",
        "otelchain.redaction.phones._UNCERTAIN",
    ),
    "otelchain_collector.dialects.python_repr._LITERAL",
}
#: What texts are made of: beginnings and insides of what the patterns look for.
PIECES = (
    *('"', "'", "\\", '\\"', "\\'", "\\\\", "{", "[", " {", " {a", " $a", " <", " [a", "*", " *"),
    *("a", "A", "Aa", "aA", "0", "0 ", "0-", "0.", ".0", "0e", "a0", "Aa0", "a-", "-", " ", "\n"),
    *("[email:k1:0", "[withheld: 0", "'cache_read': ", "'cache_read': 0", "otelchain capture"),
    *("00000000-", "eyJ", "id ", "a: ", "https://a:a", "%", "\x00", "\u00e9", "\ud800", "\udc80"),
)


def patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Find the patterns that the modules hold, also those in tuples and dictionaries."""
    for package in (otelchain, otelchain_collector):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if found.name.endswith("__main__") or ".demo." in found.name:
                continue
            try:
                module = importlib.import_module(found.name)
            except ImportError:  # Of an extra that is not installed.
                continue
            for name, value in vars(module).items():
                for number, each in enumerate(_in(value)):
                    yield f"{found.name}.{name}" + (f".{number}" if number else ""), each


def _in(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _in(each)
    elif isinstance(value, dict):
        yield from _in(list(value.values()))


SEEN = {
    name: pattern
    for name, pattern in patterns()
    if not any(name.startswith(module + ".") for module in OURS)
}


def texts(most: int) -> Iterator[str]:
    """Yield long texts: one piece again and again, alone and after each beginning of another."""
    for piece in PIECES:
        whole = piece * (most // len(piece))
        yield whole
        for start in ('"', " {"):
            yield start + whole


@pytest.mark.parametrize("name", SEEN)
def test_a_pattern_ends_with_any_long_text(name: str) -> None:
    pattern = SEEN[name]
    for text in texts(SEE_AT_MOST.get(name, CHARS // 8)):
        seen: Any = text
        if isinstance(pattern.pattern, bytes):
            seen = text.encode(errors="surrogatepass")
        pattern.fullmatch(seen)
        pattern.match(seen)
        for _ in pattern.finditer(seen) if name not in AT_THE_START else ():
            pass


@pytest.mark.parametrize("signal", SIGNALS, ids=[signal.name for signal in SIGNALS])
@pytest.mark.parametrize("start", [b'{"resourceSpans":[{"a":"', b"{\xff", b'{"a":', b""])
@pytest.mark.parametrize(
    "piece",
    [b'\\"', b'"', b"\\", b"[", b"{", b'{"a":', b"1", b"1e", b"\xff", b"\xffa", b'"",', b"]"],
)
def test_a_body_that_is_no_json_is_refused_soon(start: bytes, piece: bytes, signal: Signal) -> None:
    with pytest.raises(MalformedRequestError) as refused:
        parse_json(signal, start + piece * (CHARS // len(piece)), 0)

    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("piece", ["\\", '\\"', '"', "'", "(", "{", "1"])
@pytest.mark.parametrize("start", ["password: {", "password={", '"password":{"'])
def test_a_text_that_names_a_secret_and_closes_nothing_is_redacted_soon(
    start: str, piece: str
) -> None:
    redacted = Redactor().text(start + piece * (CHARS // 4 // len(piece)) + "hunter2")

    assert len(redacted) < 2 * CHARS


def test_a_glob_of_many_stars_ends_with_any_long_name() -> None:
    for glob in ("*secret*key", "*a*a*a*b", "a*?*?*b", "*se?ret*k*y*z"):
        for text in ("secret" * 100_000, "a" * CHARS, "secretkey" * 100_000):
            assert glob_pattern(glob).fullmatch(text + "!") is None


@pytest.mark.parametrize(
    ("glob", "text", "matches"),
    [
        ("a*b*c", "aXbYbZc", True),
        ("a*b*c", "aXcYb", False),
        ("*ab*ab", "ab", False),
        ("*ab*ab", "xabab", True),
        ("*a?c*", "xxABCxx", True),
        ("**", "", True),
        ("a**b", "ab", True),
        ("a", "ab", False),
        ("*.*.*", "a.b.c\n", True),
        ("*a*b", "aab", True),
        ("*a?*b", "aab", True),
        ("*a?*b", "ab", False),
    ],
)
def test_a_star_is_any_text_and_a_question_mark_one_character(
    glob: str, text: str, matches: bool
) -> None:
    assert (glob_pattern(glob).fullmatch(text) is not None) == matches
