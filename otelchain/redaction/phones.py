"""Telephone numbers: shapes that say their region, checked with ``phonenumbers``.

A bare number is taken for a telephone number only where its shape or the words before it
say so; order numbers, dates and ids are digits too.
"""

# ruff: noqa: RUF001 (full-width punctuation is what the patterns look for)
from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from otelchain.redaction.rules import Match, Span


class _National(NamedTuple):
    region: str
    shape: re.Pattern[str]


# Each way of writing is the national plan's own, so the region is clear without a prefix.
_SHAPES = (
    ("US", r"(?:1[ .\-])?[2-9]\d\d(?:[ .\-])[2-9]\d\d[ .\-]\d{4}"),
    ("US", r"\([2-9]\d\d\) ?[2-9]\d\d[ .\-]\d{4}"),
    ("CN", r"(?:86[ \-]?)?1[3-9]\d(?:\d{8}| \d{4} \d{4}|-\d{4}-\d{4})"),
    ("CN", r"0(?:10|2\d)[ \-]\d{4} ?\d{4}|0[3-9]\d\d[ \-]\d{7,8}"),
    ("FR", r"0[1-9](?:\d{8}|(?: \d\d){4}|(?:\.\d\d){4}|(?:-\d\d){4})"),
    ("GB", r"0(?:7\d{3} ?\d{3} ?\d{3}|20 \d{4} \d{4}|1\d1 \d{3} \d{4}|1\d{3} \d{5,6})"),
    ("JP", r"0[789]0-\d{4}-\d{4}|0\d-\d{4}-\d{4}|0\d{2,3}-\d{2,3}-\d{4}"),
    ("KR", r"01[016789]-\d{3,4}-\d{4}|02-\d{3,4}-\d{4}"),
    ("AU", r"04\d\d \d{3} \d{3}|0[2378] \d{4} \d{4}"),
    ("AU", r"\(0[2378]\) \d{4} \d{4}"),
    ("DE", r"0(?:1[567]\d{1,2}|[2-9]\d{1,4})[ /\-]\d{5,9}"),
    ("BR", r"\(\d\d\) ?9?\d{4}-\d{4}"),
)
_NATIONAL = [_National(region, re.compile(shape, re.ASCII)) for region, shape in _SHAPES]
NATIONAL_PATTERN = "(?:{}|{})\\b".format(
    "|".join(shape for _, shape in _SHAPES if shape.startswith(r"\(")),
    r"\b(?:" + "|".join(shape for _, shape in _SHAPES if not shape.startswith(r"\(")) + ")",
)
"""All shapes, in RE2 syntax."""

# American numbers are often made up (555), but 415-555-2671 is nothing else; with dots or spaces
# it may be. Elsewhere the number must be in a range that is handed out.
_UNCERTAIN = re.compile(r"\d+(?:[. ]\d+)+")
_NOT_A_PHONE = re.compile(
    r"(?i)(?:order|invoice|ticket|case|tracking|reference|\bref|serial|account|sku|build|version|"
    r"commit|isbn|(?:\b|_)id|\bno\.?|number|nr\.?|bestell\w*|rechnung\w*|单号|订单\S{0,2}|编号|流水号|"
    r"账号|注文番号|#|№)\s{0,2}[:：#=]?\s{0,2}\"?\Z"
)
_GLUED_BEFORE = re.compile(r"[0-9A-Za-z_$€£¥]\Z|[0-9][-./:]\Z|[0-9a-fA-F]{4}-\Z", re.ASCII)
_GLUED_AFTER = re.compile(r"[0-9A-Za-z_%]|[-.][0-9]|-[a-f]{2}\b", re.ASCII)
_DATE = re.compile(r"(?:19|20)\d\d[-./ ]?[01]\d[-./ ]?[0-3]\d(?!\d)")
_CONTEXT_CHARS = 24
_MIN_DIGITS, _MAX_DIGITS = 7, 15  # shortest subscriber numbers; ITU-T E.164
_DIGITS = re.compile(r"[0-9]+")
_PHONE_CHARS = re.compile(r"\+?[0-9 ().\-/]+")

PHONE_WORDS = frozenset(
    {"phone", "phones", "telephone", "tel", "mobile", "cell", "cellphone", "fax", "whatsapp"}
    | {"msisdn", "telefon", "电话", "手机", "手机号", "联系电话"}
)
"""Words in the name of a dict entry that make a plain number a telephone number."""


_COUNTING = "0123456789" * 2
"""Alphabets in code, not telephone numbers."""


def is_plausible(value: str) -> bool:
    """Tell whether a value under such a name is a number one can call.

    >>> is_plausible("4155552671"), is_plausible("iPhone 15"), is_plausible("2026-11-30")
    (True, False, False)
    """
    digits = sum(char.isdigit() for char in value)
    return (
        _PHONE_CHARS.fullmatch(value.strip()) is not None
        and _MIN_DIGITS <= digits <= _MAX_DIGITS
        and not _DATE.match(value.strip())
    )


@lru_cache(maxsize=4096)
def is_phone(value: str, region: str | None, strict: bool) -> bool:
    """Ask ``phonenumbers``: strict means a range that is handed out, else a length in use.

    >>> is_phone("+44 20 7946 0958", None, False), is_phone("+40.7128-074.0060", None, False)
    (True, False)
    """
    import phonenumbers  # 20 ms

    if value.lstrip("+") in _COUNTING:
        return False
    try:
        number = phonenumbers.parse(value, region)
    except phonenumbers.NumberParseException:
        return False
    if strict:
        return bool(phonenumbers.is_valid_number(number))
    return bool(phonenumbers.is_possible_number(number))


def find_international(match: Match) -> Iterator[Span]:
    """Find ``+CC …`` at the start of the match; further numbers may follow it."""
    if _GLUED_BEFORE.search(match.string[max(0, match.start() - 5) : match.start()]):
        return
    for end in _ends_of_groups(match):
        if is_phone(match.string[match.start() : end], None, False):
            yield Span(match.start(), end)
            return


def find_national(match: Match) -> Iterator[Span]:
    """Find a number written the way one region writes it (``NATIONAL_PATTERN``)."""
    text, start, end = match.string, match.start(), match.end()
    is_alone = _starts_alone(text, start) and not _GLUED_AFTER.match(text[end : end + 4])
    if is_alone and _is_national(text[start:end]):
        yield Span(start, end)


def find_after_keyword(match: Match) -> Iterator[Span]:
    """Find a plausible number after "phone:" and the like (first group); others may follow it."""
    for end in _ends_of_groups(match, 1):
        if is_plausible(match.string[match.start(1) : end]):
            yield Span(match.start(1), end)
            return


def _is_national(value: str) -> bool:
    return any(
        shape.fullmatch(value)
        and is_phone(value, region, region != "US" or bool(_UNCERTAIN.fullmatch(value)))
        for region, shape in _NATIONAL
    )


def is_named_otherwise(text: str, start: int) -> bool:
    """Tell that the text before a number calls it an order, an account or a version.

    >>> is_named_otherwise("Order no. 4155552671", 10), is_named_otherwise("or 4155552671", 3)
    (True, False)
    """
    return _NOT_A_PHONE.search(text[max(0, start - _CONTEXT_CHARS) : start]) is not None


def _starts_alone(text: str, start: int) -> bool:
    before = text[max(0, start - _CONTEXT_CHARS) : start]
    return not _GLUED_BEFORE.search(before) and not is_named_otherwise(text, start)


def _ends_of_groups(match: Match, group: int = 0) -> list[int]:
    """Give the ends of the digit groups, longest first."""
    digits = _DIGITS.finditer(match.group(group))
    return [match.start(group) + run.end() for run in digits][::-1]
