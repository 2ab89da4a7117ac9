"""E-mail addresses: ASCII, Latin, internationalised (RFC 6531, 5890), with a quoted local part."""

# ruff: noqa: RUF001 (domains in other scripts)
from __future__ import annotations

from collections.abc import Iterator

from otelchain.redaction.rules import Match, Rule, Span

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?"
_DOMAIN = rf"{_LABEL}(?:\.{_LABEL})*\.(?:(?i:xn--)[A-Za-z0-9\-]{{2,59}}|[A-Za-z]{{2,24}})"
# Top-level domains in other scripts: the text goes on behind them without a space.
# Source: IANA root zone, country codes and the generic ones in use.
_OTHER_TOP_LEVEL = (
    "公司|中国|中國|香港|台湾|台灣|澳門|新加坡|网络|網絡|在线|网址|网站|商城|集团|"
    "我爱你|游戏|公益|政务|商店|世界|"
    "рф|ком|орг|сайт|онлайн|москва|бел|укр|срб|мкд|қаз|мон|бг|ею|ελ|ευ|"
    "みんな|コム|ストア|グーグル|한국|닷컴|닷넷|삼성|ไทย|คอม|भारत|संगठन|कॉम|বাংলা|ভারত|ভাৰত|"
    "இந்தியா|இலங்கை|சிங்கப்பூர்|భారత్|ભારત|ਭਾਰਤ|ଭାରତ|ಭಾರತ|ഭാരതം|ලංකා|გე|հայ|ລາວ|"
    "مصر|السعودية|السعوديه|امارات|الاردن|المغرب|الجزائر|تونس|قطر|عمان|فلسطين|سورية|سوريا|"
    "ایران|پاکستان|بھارت|موقع|شبكة|كوم|عراق|اليمن|سودان|ישראל|קום"
)
_LETTER = r"[A-Za-z0-9_\p{L}\p{M}\p{N}]"
_OTHER_LABEL = r"[A-Za-z0-9\p{L}\p{M}\p{N}](?:[A-Za-z0-9\-\p{L}\p{M}\p{N}]{0,62})"

_OTHER_DOMAIN = (
    rf"(?:{_OTHER_LABEL}\.){{1,4}}"
    rf"(?:{_OTHER_TOP_LEVEL}|(?i:xn--)[A-Za-z0-9\-]{{2,59}}|[A-Za-z]{{2,24}}\b)"
)

_FILE_ENDINGS = frozenset(
    ["png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "ts", "py", "md", "json", "html"]
)
# q@k.sum(…) is a product of matrices, bob@example.com(…) is not
_TOP_LEVEL = frozenset(
    ["com", "org", "net", "edu", "gov", "mil", "int", "info", "biz", "dev", "app"]
)


def find_email(match: Match) -> Iterator[Span]:
    """Find an address that is no file name, package version, product of matrices or URL's user."""
    text, start, end = match.string, match.start(), match.end()
    local, _, domain = text[start:end].rpartition("@")
    ending = domain.rsplit(".", 1)[-1].lower()
    is_call = text[end : end + 1] == "(" and len(ending) > 2 and ending not in _TOP_LEVEL
    labels = domain.split(".")
    is_version = labels[0].isdigit() and labels[1][:1].isdigit()
    # scheme://user:password@host is the URL rule's; git@host is an address of a machine.
    before = text[max(0, start - 256) : start].replace("\\", "")
    in_url = "://" in before and not set(before.rpartition("://")[2]) & set(" \t\n/?#\"'<>,")
    if ending not in _FILE_ENDINGS and not (is_call or is_version or in_url or local == "git"):
        yield Span(start, end)


def _find_in_other_domain(match: Match) -> Iterator[Span]:
    if not match.group().rpartition("@")[2].isascii():
        yield Span(match.start(), match.end())


def _find_in_other_script(match: Match) -> Iterator[Span]:
    """Leave addresses with a Latin name to the rules that know where they begin."""
    local = match.group().partition("@")[0]
    if not local[-1].isascii():
        yield Span(match.start(), match.end())


EMAIL_RULES = [
    Rule(
        "email",
        "email",
        # RFC 5321 dot-atoms with Latin letters
        r"[A-Za-z0-9_\x{C0}-\x{24F}](?:[A-Za-z0-9._%+'\-\x{C0}-\x{24F}]*"
        rf"[A-Za-z0-9_+\-\x{{C0}}-\x{{24F}}])?@{_DOMAIN}",
        find_email,
        first=r"@[A-Za-z0-9][A-Za-z0-9.\-]*\.[A-Za-z]{2}",
        canonical=str.lower,
    ),
    Rule(
        "email",
        "email",
        # a Latin name, a domain in another script
        rf"[A-Za-z0-9_\x{{C0}}-\x{{24F}}](?:[._+\-]?[A-Za-z0-9_\x{{C0}}-\x{{24F}}]){{0,63}}"
        rf"@{_OTHER_DOMAIN}",
        _find_in_other_domain,
        first=r"@[A-Za-z0-9.\-]*[^\x00-\x7F]",
    ),
    Rule(
        "email",
        "email",
        # a name in another script: in text without spaces it may take words before it with it
        rf"{_LETTER}(?:[._+\-]?{_LETTER}){{0,63}}@(?:{_OTHER_DOMAIN}|{_DOMAIN})",
        _find_in_other_script,
        first=r"[^\x00-\x7F]@[^\s@]",
    ),
    Rule(
        "email",
        "email",
        # RFC 5321 quoted string; inside JSON text its quotes are escaped
        rf"\\*\"[^\"\n@\\]{{1,64}}(?:@[^\"\n@\\]{{0,64}})?\\*\"@{_DOMAIN}",
        first=r"\"@[A-Za-z0-9]",
    ),
]
