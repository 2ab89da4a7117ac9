"""Checks that tell a real identifier from a number that only looks like one.

Luhn and the issuer ranges are ISO/IEC 7812, IBAN is ISO 13616; everything national is
python-stdnum's, loaded when the first candidate of its kind turns up.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module

from otelchain.redaction.rules import Check, Find, Match, Span

CARD_PATTERN = (
    r"\b[2-9](?:[0-9]{11,18}|[0-9]{3}(?:[ \-][0-9]{4}){3}|[0-9]{3}[ \-][0-9]{6}[ \-][0-9]{4,5}"
    r"|[0-9]{5}[ \-][0-9]{13}|[0-9]{7}[ \-][0-9]{8})\b"
)
"""The groupings in which card numbers are printed, in RE2 syntax."""
_DIGIT_RUN = re.compile(r"[0-9]+(?:[ \-][0-9]+)*")
_MAX_CARD_CHARS = 23  # 19 digits in five groups

_IBAN_START = re.compile(r"(?i)\b[A-Z]{2}[0-9]{2}", re.ASCII)
_MIN_IBAN, _MAX_IBAN = 15, 34  # Norway's; the standard's limit
_MAX_IBAN_CHARS = _MAX_IBAN * 2
_GROUP = re.compile(r"[0-9A-Za-z]+")
# Issuer range → lengths in use. First match counts. Sources: the networks' BIN listings.
_ISSUERS = [
    (re.compile(pattern), frozenset(lengths))
    for pattern, lengths in (
        (r"4", (16, 19)),  # Visa; its 13-digit numbers are retired and look like EANs
        (r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720", (16,)),  # Mastercard
        (r"3[47]", (15,)),  # American Express
        (r"220[0-4]", (16, 17, 18, 19)),  # Mir
        (r"6011|64[4-9]|65", (16, 17, 18, 19)),  # Discover, RuPay
        (r"30[0-5]|3095|36|3[89]", (14, 15, 16, 17, 18, 19)),  # Diners Club
        (r"352[89]|35[3-8]", (16, 17, 18, 19)),  # JCB
        (r"62|81", (16, 17, 18, 19)),  # UnionPay, RuPay
        (r"50[0-9]|5[6-9]|6[037]", (12, 13, 14, 15, 16, 17, 18, 19)),  # Maestro
        (r"9792", (16,)),  # Troy
    )
]
# Longest first: 4-4-4-4-3 before 4-4-4-4.
_CARD_GROUPINGS: dict[int, tuple[tuple[int, ...], ...]] = {
    4: ((4, 4, 4, 4, 3), (4, 4, 4, 4), (4, 6, 5), (4, 6, 4)),
    6: ((6, 13),),
    8: ((8, 8),),
    **{size: ((size,),) for size in range(12, 20)},
}


def compact(value: str) -> str:
    """Drop what people put between the characters of a number.

    >>> compact("de89 3704-0044")
    'DE8937040044'
    """
    return "".join(_GROUP.findall(value)).upper()


def luhn(digits: str) -> bool:
    """Check the ISO/IEC 7812 check digit.

    >>> luhn("4111111111111111"), luhn("4111111111111112")
    (True, False)
    """
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit)
        total += number if place % 2 == 0 else sum(divmod(number * 2, 10))
    return total % 10 == 0


def is_card(digits: str) -> bool:
    """Tell whether an issuer hands out this number: range, length and check digit.

    >>> is_card("378282246310005"), is_card("4111111111111112"), is_card("1234567812345670")
    (True, False, False)
    """
    lengths = next((known for issuer, known in _ISSUERS if issuer.match(digits)), frozenset())
    return len(digits) in lengths and len(set(digits)) > 1 and luhn(digits)


def find_cards(match: Match) -> Iterator[Span]:
    """Find card numbers that start inside the match; they may end behind it."""
    text = match.string[match.start() : match.end() + _MAX_CARD_CHARS]
    run = _DIGIT_RUN.match(text)
    groups = [
        Span(match.start() + group.start(), match.start() + group.end())
        for group in _GROUP.finditer(run.group() if run else "")
    ]
    first = 0
    while first < len(groups):
        last = _card_from(match.string, groups, first)
        if last is None:
            first += 1
        else:
            yield Span(groups[first].start, groups[last].end)
            first = last + 1


def _card_from(text: str, groups: list[Span], first: int) -> int | None:
    size = groups[first].end - groups[first].start
    for sizes in _CARD_GROUPINGS.get(size, ()):
        members = groups[first : first + len(sizes)]
        if tuple(end - start for start, end in members) != sizes:
            continue
        if is_card("".join(text[start:end] for start, end in members)):
            return first + len(sizes) - 1
    return None


@lru_cache(maxsize=1024)
def is_iban(value: str) -> bool:
    """Check country, length, structure and the ISO 7064 remainder.

    >>> is_iban("GB82WEST12345698765432"), is_iban("GB83WEST12345698765432")
    (True, False)
    """
    number = "".join(str(int(char, 36)) for char in value[4:] + value[:4])
    if int(number) % 97 != 1:
        return False
    # check_country would refuse IBANs whose national check digit is merely unusual
    iban = import_module("stdnum.iban")
    return bool(iban.is_valid(value, check_country=False))


def find_iban(match: Match) -> Iterator[Span]:
    """Find IBANs that start inside the match; words in capitals may stand around them."""
    for begin in _IBAN_START.finditer(match.group()):
        start = match.start() + begin.start()
        text = match.string[start : start + _MAX_IBAN_CHARS]
        for end in reversed([group.end() for group in _GROUP.finditer(text)]):
            value = compact(text[:end])
            if _MIN_IBAN <= len(value) <= _MAX_IBAN and is_iban(value):
                yield Span(start, start + end)
                break


def stdnum_check(module: str) -> Check:
    """Make a check of ``stdnum.MODULE.is_valid``, loaded at the first call."""

    @lru_cache(maxsize=1024)
    def check(value: str) -> bool:
        return bool(import_module(f"stdnum.{module}").is_valid(value))

    return check


def separate(find: Find) -> Find:
    """Keep spans that are not part of something longer: a decimal, a UUID, an identifier."""

    def find_separate(match: Match) -> Iterator[Span]:
        for span in find(match):
            if _stands_alone(match.string, span):
                yield span

    return find_separate


def _stands_alone(text: str, span: Span) -> bool:
    before, after = text[max(0, span.start - 5) : span.start], text[span.end : span.end + 2]
    return not _GLUED_BEFORE.search(before) and not _GLUED_AFTER.match(after)


_GLUED_BEFORE = re.compile(r"[0-9A-Za-z_]\Z|[0-9][-./:]\Z|[0-9a-fA-F]{4}-\Z", re.ASCII)
_GLUED_AFTER = re.compile(r"[0-9A-Za-z_]|\.[0-9]", re.ASCII)


def is_basic_credential(value: str) -> bool:
    """Tell whether Base64 text is ``user:password`` (RFC 7617).

    >>> is_basic_credential("QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), is_basic_credential("authentication")
    (True, False)
    """
    padded = value.rstrip("=") + "=" * (-len(value.rstrip("=")) % 4)
    try:
        return b":" in base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        return False


_RUN = re.compile(r"[A-Za-z0-9]{16,}")


def has_random_run(value: str) -> bool:
    """Tell a generated token from words joined by hyphens.

    >>> has_random_run("sk-0f3c9a7be21d4c55"), has_random_run("sk-estimator-doc-link-2")
    (True, False)
    """
    return any(
        any(char.isdigit() for char in run) and any(char.isalpha() for char in run)
        for run in _RUN.findall(value)
    )


def looks_generated(value: str) -> bool:
    """Tell a token from a word of prose: it has a digit among letters, or is long and mixed.

    >>> looks_generated("abc123def"), looks_generated("authentication")
    (True, False)
    """
    letters = any(char.isalpha() for char in value)
    digits = any(char.isdigit() for char in value)
    return (letters and digits) or (
        len(value) >= 20 and value.lower() != value and value.upper() != value
    )
