"""Secrets named in running text: ``password=…``, ``"api_key": "…"``, ``--token …``, 密码: ….

The patterns here only find a name and what stands after it; whether the name is sensitive is
decided by ``otelchain.redaction.keys``, the same way as for the keys of a tree.
"""

# ruff: noqa: RUF001 (full-width punctuation is what the patterns look for)
from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from otelchain.redaction.checksums import looks_generated
from otelchain.redaction.keys import IsSensitive, words
from otelchain.redaction.rules import Find, Match, Rule, Span
from otelchain.redaction.scanner import compiled

# Part of every sensitive name; a coarse sieve, `IsSensitive` is the fine one.
_OTHER_STEMS = (
    "passw|passphrase|passcode|pwd|_pass|secret|credential|creds|authorization|cookie|jwt|"
    "otp|cvv|cvc|ssn|social.{0,2}security|passport.{0,2}n|card.{0,2}(?:number|pin)|"
    "connection.{0,2}string|(?:api|access|private|signing|encryption|account|master|ssh|auth|"
    "session|deploy|license|subscription).{0,2}key|(?:recovery|backup).{0,2}codes"
)
_STEMS = f"{_OTHER_STEMS}|token"
_NAME = r"[A-Za-z0-9_.\-]*"
# Most names with "token" in them count tokens (input_tokens, token_usage) and stand in the answer
# of every model, which must not be sent to the rules for that.
_NAMES_OF_TOKENS = (
    r"token[0-9_.\-]*"
    rf"|(?:(?:access|auth|refresh|session)token|(?:access|auth|refresh|api)[0-9_.\-]*tokens){_NAME}"
)
_SEPARATOR = r"(?:\\*[\"'`\]])*[ \t]*(?::=|=>|={1,3}|[:：＝])[ \t]*"
# Quoted with an escaped quote (JSON inside a string), quoted, or bare. A missing closing quote
# (text cut short) ends the value at the line's end.
_VALUE = (
    r"(?:\\+\"((?:[^\"\\\n]|\\+[^\"\\\n])*)|\\+'((?:[^'\\\n]|\\+[^'\\\n])*)"
    r"|[rbuf]?\"((?:[^\"\\\n]|\\.)*)|[rbuf]?'((?:[^'\\\n]|\\.)*)|`([^`\s][^`\n]*)"
    r"|([^\s\"'`&;<>][^\s\"'`&;，。；、）】」]*))"
)
_BARE_GROUP = 7  # name, five quoted forms, bare

# RE2, as everything here that sees whole values: Python's engine can backtrack without end.
_PLACEHOLDER = (
    r"(?i)(?:null|none|nil|undefined|true|false|str|string|int|integer|number|bool|boolean|object|"
    r"array|bytes|any|optional\W.*|required|missing|invalid|expired|empty|unset|n/a|"
    r"[*•x.\-_…]+|<[^<>]*>|\$\{?[\w.]+\}?|\W*(?:\{+[\w. ]*\}+\W*)+|%[\w]+%|\$\(.*|"
    r"[\w.]+\(.*|[\w.]+\[.*|\([A-Za-z_.]+|"
    r"[\[{(].{0,2}|self\.\w+|args\.\w+|os\.environ.*|process\.env.*|settings\.\w+|config\.\w+)"
)
# What prose puts after "Password:" when it talks about passwords.
_PROSE = re.compile(
    r"(?i)(?:must|should|can|cannot|may|will|is|are|was|the|a|an|and|or|of|to|for|in|on|at|not|no|"
    r"your|my|our|one|two|see|used|available|their|this|that|it|has|have|please|enter|use|reset|change|choose|how|what|why|"
    r"when|where|which|if|minimum|wrong|incorrect|forgotten|protected|field|length|policy)"
)
_IDENTIFIER = re.compile(r"[A-Za-z_.]+")
_TYPE = re.compile(r"(?:Str|Bytes|Type|Types|Credentials|Callable|Provider)\Z")
_TRAILING = ",.)]}!?:，。；、）】」"
_QUOTES = "\\\"'`"
# What matters inside of brackets: brackets, quotes (behind backslashes in JSON inside a string),
# numbers. A run of backslashes is looked at from its start only: from each of them it would take
# the square of their number.
_TOKEN = re.compile(r"[\[\]{}()]|(?<!\\)(\\*[\"'])|[0-9]{3,}")
_ENDS = {quote: re.compile(rf"(?<!\\)\\*{quote}") for quote in "\"'"}
_PASSWORD_WORDS = ("pass", "pwd", "cvv", "cvc", "ssn", "otp", "jwt")


def key_value_rules(is_sensitive: IsSensitive, extra: Sequence[str] = ()) -> list[Rule]:
    """Make the text rules for one set of sensitive names.

    Args:
        is_sensitive: Decides about the name that was found.
        extra: The user's own names; their spelling in text may differ in case and separators.
    """
    stems = "|".join([_STEMS, *(_stem(name) for name in extra)])
    name = f"({_NAME}(?:{stems}){_NAME})"
    sieve_stems = "|".join([_OTHER_STEMS, *(_stem(name) for name in extra)])
    sieve = f"(?i)(?:(?:{sieve_stems}){_NAME}|{_NAMES_OF_TOKENS})"
    return [
        Rule(
            "secret",
            "secret",
            f"(?i){name}{_SEPARATOR}{_VALUE}",
            _named(is_sensitive),
            first=f"{sieve}{_SEPARATOR}",
            removes_all=True,
        ),
        Rule(
            "secret",
            "secret",
            rf"(?i)<{name}(?:\s[^<>]*)?>([^<>]+)</",
            _named(is_sensitive),
            first=rf"{sieve}(?:\s[^<>]*)?>[^<>]+</",
        ),
        Rule(
            "secret",
            "secret",
            rf"(?i)--{name}[ \t]+[\"']?([^\s\"'\-][^\s\"']*)",
            _named(is_sensitive),
            first=rf"(?i)--{_NAME}(?:{stems}){_NAME}[ \t]+[\"']?[^\s\"'\-]",
            removes_all=True,
        ),
    ]


def _stem(name: str) -> str:
    parts = words(name)
    return r"[^A-Za-z0-9\n]?".join(parts) if parts else re.escape(name)


def _named(is_sensitive: IsSensitive) -> Find:
    def find(match: Match) -> Iterator[Span]:
        name = match.group(1)
        if not is_sensitive(name):
            return
        groups = range(2, match.re.groups + 1)
        group = next((at for at in groups if match.start(at) >= 0), 0)
        span = Span(match.start(group), match.end(group))
        if group == _BARE_GROUP:
            yield from _bare(match, span, name)
        elif _is_secret_value(match.string[span.start : span.end]):
            yield span

    return find


def _is_secret_value(value: str) -> bool:
    return bool(value.strip()) and compiled(_PLACEHOLDER).fullmatch(value.strip()) is None


def _bare(match: Match, span: Span, name: str) -> Iterator[Span]:
    """Without quotes, prose is told from a value by the space before it and by its look."""
    if match.string[span.start] in "{[(" and match.string[match.end(1)] in _QUOTES:
        yield from _container(match.string, span.start)
        return
    value = match.string[span.start : span.end].rstrip(_TRAILING)
    if not _is_secret_value(value) or _is_variable(value, name):
        return
    directly = match.string[span.start - 1] in "=:：＝"
    end = span.start + len(value)
    if directly or not _is_prose(value, name, _is_last(match.string, span.start, end)):
        yield Span(span.start, end)


def _container(text: str, start: int) -> Iterator[Span]:
    """``"password": {"a": "…"}`` in what is no JSON (any more): cut short, in a sentence, a repr.

    A tree is not read here, so all that the brackets hold goes; to the end where they stay open.
    """
    depth, at, holds_value = 0, start, False
    while at < len(text):
        token = _TOKEN.search(text, at)
        if token is None:
            break
        at = token.end()
        if token[0] in "{[(":
            depth += 1
        elif token[0] in "}])":
            depth -= 1
        elif token[1] is None:
            holds_value = True
        else:
            begins, at = at, _after_quote(text, token)
            is_name = text[at : at + 3].lstrip()[:1] == ":"
            value = text[begins:at].rstrip(_QUOTES)
            holds_value = holds_value or (not is_name and _is_secret_value(value))
        if depth == 0:
            break
    if depth:
        at = len(text)
    if holds_value:
        yield Span(start, at)


def _after_quote(text: str, opening: re.Match[str]) -> int:
    """Find where a quoted text ends: at the same quote, behind as many backslashes.

    Each level of JSON inside a string doubles the backslashes of what it writes and adds one to
    a quote: a quote that is written with n of them is 2n+1 further in, and a backslash 2n+2.
    """
    level = len(opening[0]) - 1
    for quote in _ENDS[opening[0][-1]].finditer(text, opening.end()):
        if (len(quote[0]) - 1) % (2 * level + 2) == level:
            return quote.end()
    return len(text)


def _is_prose(value: str, name: str, is_last: bool) -> bool:
    """``secret: nobody knows``; but not what follows ``api_key:`` or stands alone on its line."""
    is_unmistakable = len(words(name)) > 1 or any(word in name.lower() for word in _PASSWORD_WORDS)
    if is_unmistakable or is_last:
        return _PROSE.fullmatch(value) is not None
    return not _looks_random(value)


def _is_last(text: str, start: int, end: int) -> bool:
    """Tell whether nothing follows on the line; after ``=`` that is what code looks like."""
    rest = text[end : end + 80].split("\n", 1)[0]
    return not text[max(0, start - 8) : start].rstrip(" \t").endswith("=") and not rest.strip(
        _TRAILING + " \t\"'`"
    )


def _is_variable(value: str, name: str) -> bool:
    """``password=self.password``, ``token: AccessToken``: code, in which the value is elsewhere."""
    if not _IDENTIFIER.fullmatch(value):
        return False
    return bool(set(words(value)) & set(words(name))) or _TYPE.search(value) is not None


def _looks_random(value: str) -> bool:
    return looks_generated(value) or len(value) >= 32


def find_spoken(match: Match) -> Iterator[Span]:
    """``my password is hunter2``: only a value that no dictionary has."""
    value = match.group(1).rstrip(_TRAILING)
    if any(not char.isalpha() for char in value) and _is_secret_value(value):
        yield Span(match.start(1), match.start(1) + len(value))


SPOKEN_RULES = [
    Rule(
        "secret",
        "secret",
        r"(?i)\b(?:password|passphrase|passcode|passwd|api key|access token|secret key|otp|pin)"
        r"(?:\s+(?:for|to|of|on)(?:\s+[\w.\-]+){1,4}?)?\s+(?:is|was|ist|=)\s*:?\s+[\"'`“]?"
        r"([^\s\"'`“”]{4,})",
        find_spoken,
        removes_all=True,
    ),
    Rule(
        "secret",
        "secret",
        r"(?:密码|密碼|口令|密钥|密鑰|令牌|パスワード|验证码|驗證碼|비밀번호|пароль|Пароль)"
        r"[是为為は]?\s*[:：=＝是为為は]?\s*[\"'“「]?([!#-&(-~]{4,})",
        find_spoken,
        removes_all=True,
    ),
]
