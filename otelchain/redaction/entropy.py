"""Secrets without a published shape: random characters, and something that says what they are for.

Random text in a trace is an id more often than a secret, and no measure of entropy tells a key
from an id. So a random text is taken for a secret

- near a word that promises one (``generic_secret``): "our Cohere key is …"; or
- where it mixes capitals, small letters and digits over 32 to 200 characters and neither its
  prefix nor the name before it nor the URL around it says that it is an id (``generic_token``).

Not secrets: hex alone (commits, digests, trace ids), UUIDs, ULIDs, words joined by hyphens, ids of
providers (``call_…``, ``chatcmpl-…``), digests (``sha256-…``), signatures, cursors, images, Base64
of text (which is looked into, see ``views``).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from otelchain.redaction.rules import Match, Rule, Span
from otelchain.redaction.scanner import compiled
from otelchain.redaction.spellings import BASE64_TEXT

_MIN_NEAR_WORD, _MIN_ALONE, _MAX_ALONE = 16, 32, 200
_CONTEXT_CHARS = 64

_CHAR = r"[A-Za-z0-9_+/\-]"
_PROMISE = (
    r"(?:\bkeys?\b|api[ _\-]?keys?\b|secrets?\b|tokens?\b|credentials?\b|passwords?\b|passwd|"
    r"bearer|\bauth\b|密钥|密鑰|令牌|口令|密码|密碼|凭证|トークン|シークレット|キー|토큰|비밀번호|ключ|токен|пароль)"
)
# Between the word and the text: nothing that says the text is something else.
_SOMETHING_ELSE = re.compile(
    r"(?i)(?:\b(?:hash|sha-?[0-9]*|md5|digest|checksum|commit|etag|nonce|fingerprint|signature|"
    r"integrity|cursor|trace|span|run|request|session|order|tracking|uuid|guid|id|ids|primary|"
    r"foreign|partition|cache|sort|row|public|file|image|model|version|path|url|branch|container|"
    r"address|wallet)\b[^A-Za-z0-9]*(?:[a-z]+[^A-Za-z0-9]+)?|_id\W{0,4}|[a-z]Id\W{0,4}|"
    r"ssh-[a-z0-9]+ |base64,|[/@.#])\Z"
)
_ID_PREFIX = re.compile(
    r"(?:(?:call|chatcmpl|cmpl|toolu|srvtoolu|msg|run|req|resp|rs|fc|ws|ci|asst|thread|step|file|"
    r"ft|ftjob|batch|vs|gen|evt|cus|sub|pi|ch|in|price|prod|acct|pm|seti|si|txn|po|re|tr|cs|"
    r"org|user|usr|proj|sess|fp|lc|trace|span|doc|chunk|node|task|job|modelcmpl|embd|modr|img|"
    r"tool|functions?|item|part|conv|ctx|snap|dpl|prj|team|wf|artifact|cache|etag|sha[0-9]+)[_\-]"
    r"|0x|sha[0-9]+[:\-]|eyJ|ssh-|AAAA|iVBOR|/9j/|R0lGOD|UklGR|JVBER|PHN2Z|MII)"
)
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_WORD = re.compile(r"[A-Z][a-z]{3,}|[a-z]{4,}|[A-Z]{5,}|[0-9]{5,}")
_PIECE = re.compile(r"[A-Za-z0-9]{8,}")
_NUMBER = re.compile(r"[0-9]+")


def bits_per_character(value: str) -> float:
    """Give Shannon's entropy of the characters, in bits.

    >>> bits_per_character("aabb"), bits_per_character("aaaa")
    (1.0, 0.0)
    """
    counts = Counter(value).values()
    return sum(-n / len(value) * math.log2(n / len(value)) for n in counts) + 0.0


def words_share(value: str) -> float:
    """Give the share of characters that stand in words and in longer numbers.

    >>> words_share("ab-bucket-12"), words_share("q7Xv0Zk2")
    (0.5, 0.0)
    """
    return sum(map(len, _WORD.findall(value))) / len(value)


@lru_cache(maxsize=4096)
def is_random(value: str) -> bool:
    """Tell random characters from words, dates and numbers written together.

    Random text has many numbers in it: 32 characters of letters and digits have fewer than three
    once in 14 times, and then seldom look like words.

    >>> is_random("9fK2mQ7xLp4TzR8w"), is_random("gpt-4o-2024-08-06")
    (True, False)
    """
    text = "-".join(_PIECE.findall(value))
    numbers = len(_NUMBER.findall(text))
    has_both = numbers > 0 and any(map(str.isalpha, text))
    return (
        has_both
        and len(set(text)) >= 8
        and words_share(text) < (0.5, 0.65, 1.0)[min(numbers, 3) - 1]
    )


def find_near_word(match: Match) -> Iterator[Span]:
    """Find random text shortly behind a word that promises a secret, on the same line."""
    span = _trimmed(match)
    value = match.string[span.start : span.end]
    before = match.string[max(0, span.start - _CONTEXT_CHARS) : span.start].rpartition("\n")[2]
    has_promise = compiled("(?i)" + _PROMISE).search(before) is not None
    if not has_promise or len(value) < _MIN_NEAR_WORD or _is_id(value, before):
        return
    is_key_sized = _HEX.fullmatch(value) is None or len(value) in (32, 40, 48, 64)
    if is_key_sized and is_random(value):
        yield span


def find_alone(match: Match) -> Iterator[Span]:
    """Find a long random text in capitals, small letters and digits that nothing calls an id."""
    span = _trimmed(match)
    value = match.string[span.start : span.end]
    before = match.string[max(0, span.start - _CONTEXT_CHARS) : span.start]
    if not _MIN_ALONE <= len(value) <= _MAX_ALONE or _is_id(value, before):
        return
    classes = (str.isdigit, str.isupper, str.islower)
    is_mixed = all(any(map(kind, value)) for kind in classes) and is_random(value)
    if is_mixed and bits_per_character(value) >= 4 and not _is_in_url_path(before):
        yield span


def _trimmed(match: Match) -> Span:
    value = match.group()
    start = match.start() + len(value) - len(value.lstrip("-/+_"))
    return Span(start, match.end() - (len(value) - len(value.rstrip("-/+_"))))


def _is_id(value: str, before: str) -> bool:
    return (
        _ID_PREFIX.match(value) is not None
        or _UUID.fullmatch(value) is not None
        or _SOMETHING_ELSE.search(before[-32:]) is not None
        or compiled(BASE64_TEXT).search(value) is not None
    )


def _is_in_url_path(before: str) -> bool:
    """``https://docs.example.com/d/…``; but what follows ``?key=`` is no path."""
    last = before.split()[-1:] if not before[-1:].isspace() else []
    return bool(last) and "/" in last[0] and "=" not in last[0]


def _mixed() -> str:
    """Capital, small letter and digit in one run, eight more characters before or behind them.

    Necessary for `find_alone`, but for one random text of 32 characters in 300 (without digits).
    Kept to classes that follow each other in one way only, so that the automaton stays small.
    """
    lower, upper, digit, rest = "a-z", "A-Z", "0-9", r"_+/\-"
    orders = []
    for one, two, three in (
        (lower, upper, digit), (lower, digit, upper), (upper, lower, digit),
        (upper, digit, lower), (digit, lower, upper), (digit, upper, lower),
    ):  # fmt: skip
        orders.append(f"[{one}][{one}{rest}]*[{two}][{one}{two}{rest}]*[{three}]")
    three_classes = "(?:" + "|".join(orders) + ")"
    return rf"{three_classes}{_CHAR}{{8}}|{_CHAR}{{8}}{three_classes}"


ENTROPY_RULES = [
    Rule(
        "generic_secret",
        "entropy",
        rf"{_CHAR}{{{_MIN_NEAR_WORD},}}={{0,2}}",
        find_near_word,
        # sixteen characters, one of them a digit, have seven before or eight behind it
        first=rf"(?i){_PROMISE}[^\n]{{1,60}}?(?:[0-9]{_CHAR}{{7}}|{_CHAR}{{8}}[0-9])",
    ),
    Rule(
        "generic_token", "entropy", rf"{_CHAR}{{{_MIN_ALONE},}}={{0,2}}", find_alone, first=_mixed()
    ),
]
