"""The default policy: published shapes of secrets and personal identifiers.

Each shape is the issuer's own: its documentation or what its keys look like in public. A shape
has a lower bound only where issuers lengthen their keys. Order is the order in which rules are
named when two find the same characters.
"""

# ruff: noqa: RUF001 (full-width punctuation is what the patterns look for)
from __future__ import annotations

import re

from otelchain.redaction import checksums, phones
from otelchain.redaction.checksums import compact, separate
from otelchain.redaction.emails import EMAIL_RULES
from otelchain.redaction.entropy import ENTROPY_RULES
from otelchain.redaction.ip_addresses import IP_RULES
from otelchain.redaction.names import NAME_RULES
from otelchain.redaction.national_ids import NATIONAL_ID_RULES
from otelchain.redaction.provider_keys import PROVIDER_KEY_RULES
from otelchain.redaction.rules import Match, Rule, Span, checked, last_group


def _find_authorization(match: Match) -> list[Span]:
    (span,) = last_group(match)
    value = match.string[span.start : span.end]
    return [] if _TEMPLATE.search(value) else [span]


def _find_url_password(match: Match) -> list[Span]:
    (span,) = last_group(match)
    return [] if _TEMPLATE.search(" " + match.string[span.start : span.end]) else [span]


# "Bearer <token>", "https://user:${PASSWORD}@host": documentation and templates
_TEMPLATE = re.compile(r"\s(?:<[^<>]*>|\$?\{+[\w. ]*\}+|\$\w+|\[\w+\]|\*+)\Z")

_CREDENTIAL_RULES = [
    Rule(
        "private_key",
        "private_key",
        # RFC 7468, OpenPGP armour, PuTTY; without an end (text cut short) to the end of the text
        r"(?s)-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.*?"
        r"(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\z)"
        r"|PuTTY-User-Key-File-[0-9].*?(?:Private-MAC: [0-9a-f]+|\z)",
        first=r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY|PuTTY-User-Key-File-[0-9]",
    ),
    Rule(
        "jwt",
        "jwt",
        # RFC 7519; three parts signed, five encrypted. A header is JSON: eyJ is '{"'
        r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*\.[A-Za-z0-9_\-]*(?:\.[A-Za-z0-9_\-]+){0,2}",
        checked(lambda token: len(token) > 24),
        first=r"\beyJ[A-Za-z0-9_\-]{8,}\.",
    ),
    Rule(
        "url_password",
        "url_password",
        # RFC 3986 user information; "\/" is how some JSON encoders write a slash
        r"\b[A-Za-z][A-Za-z0-9+.\-]*:(?:\\?/){2}[^\s/:@?#\"'<>]*:([^\s/?#\"']+)@",
        _find_url_password,
        first=r":(?:\\?/){2}[^\s/:@?#\"'<>]*:[^\s/?#\"']+@",
    ),
    Rule(
        "authorization",
        "authorization",
        # RFC 9110 11.6.2 with the schemes in use
        r"(?i)\bauthorization(?:\\*[\"'])?\s*[:=]\s*(?:\\*[\"'])?"
        r"((?:(?:bearer|basic|token|digest|apikey|api-key|negotiate|aws4-hmac-sha256|ntlm)\s+)"
        r"[^\s\"'\\][^\"'\\\r\n]*)",
        _find_authorization,
        first=r"(?i)\bauthorization(?:\\*[\"'])?\s*[:=]",
        removes_all=True,
    ),
    Rule(
        "bearer",
        "authorization",
        r"(?i)\bbearer\s+([A-Za-z0-9._~+/\-]{8,}=*)",
        checked(checksums.looks_generated, last_group),
        first=r"(?i)\bbearer\s+[A-Za-z0-9._~+/\-]{8}",
        removes_all=True,
    ),
    Rule(
        "basic",
        "authorization",
        r"(?i)\bbasic\s+([A-Za-z0-9+/]{8,}={0,2})",
        checked(checksums.is_basic_credential, last_group),
        first=r"(?i)\bbasic\s+[A-Za-z0-9+/]{8}",
        removes_all=True,
    ),
    Rule(
        "cookie",
        "cookie",
        # RFC 6265: the whole header, since any pair may be the session
        r"(?i)\b(?:set-)?cookie(?:\\*[\"'])?:\s*(?:\\*[\"'])?([^\s=;,\"'\\]+=[^\r\n\"'\\]+)",
        last_group,
        first=r"(?i)cookie(?:\\*[\"'])?:",
        removes_all=True,
    ),
    Rule(
        "cookie",
        "cookie",
        # a jar of cookies, as Python and JavaScript write it
        r"(?i)\bcookies?(?:\\*[\"'])?\s*[=:]\s*(?:dict\()?(\{[^{}]*[:=][^{}]*\})",
        last_group,
        first=r"(?i)cookies?(?:\\*[\"'])?\s*[=:]\s*(?:dict\()?\{",
        removes_all=True,
    ),
    Rule(
        "url_signature",
        "url_password",
        # Azure shared access signatures, AWS and Google signed URLs
        r"(?i)[?&](?:sig|x-amz-signature|x-goog-signature|x-amz-security-token)="
        r"([A-Za-z0-9%+/=_\-]{16,})",
        last_group,
        first=r"(?i)[?&](?:sig|x-amz-s|x-goog-s)[a-z-]*=",
    ),
    Rule(
        "command_password",
        "secret",
        r"(?:\s-u|--user)[ =][\"']?[^\s:\"']+:([^\s\"']+)",
        last_group,
        first=r"(?:\s-u|--user)[ =]",
    ),
]

_DSN_PASSWORD_RULES = [
    # Connection strings that are no URLs: Oracle's thin driver, Go's MySQL driver, Sentry's DSN
    Rule(
        "url_password",
        "url_password",
        r"(?i)jdbc:oracle:[a-z]+:[^\s/@:]+/([^\s@]+)@",
        last_group,
        first=r"(?i)jdbc:oracle:[a-z]+:",
    ),
    Rule(
        "url_password",
        "url_password",
        r"\b[A-Za-z0-9_.\-]+:([^\s:@/]+)@(?:tcp|unix|cloudsql[a-z\-]*)\(",
        last_group,
        first=r":[^\s:@/]+@(?:tcp|unix|cloudsql[a-z\-]*)\(",
    ),
    Rule(
        "url_password",
        "url_password",
        r"https?://([0-9a-f]{32}(?::[0-9a-f]{32})?)@[A-Za-z0-9.\-]*sentry",
        last_group,
    ),
]

_PERSONAL_RULES = [
    *EMAIL_RULES,
    Rule(
        "card",
        "card",
        checksums.CARD_PATTERN,
        separate(checksums.find_cards),
        canonical=compact,
    ),
    Rule(
        "iban",
        "iban",
        r"(?i)\b[A-Z]{2}[0-9]{2}(?:[ \-]?[A-Z0-9]){11,46}",
        separate(checksums.find_iban),
        first=r"(?i)\b[A-Z]{2}[0-9]{2}[ \-]?[A-Z0-9]{4}(?:[ \-]?[A-Z0-9]){7}",
        canonical=compact,
    ),
    Rule(
        "phone",
        "phone",
        r"\+[1-9](?:[ ().\-/]{0,2}[0-9]){6,18}",
        phones.find_international,
        canonical=compact,
    ),
    Rule(
        "phone",
        "phone",
        phones.NATIONAL_PATTERN,
        phones.find_national,
        canonical=compact,
    ),
    Rule(
        "phone",
        "phone",
        r"(?i)(?:\bphone|\btel|\btelephone|mobile|\bcell|\bfax|whatsapp|telefon|handynummer|"
        r"t[eé]l[eé]phone|tel[eé]fono|m[oó]vil|telefone|电话|電話|手机|手機|联系方式|携帯|전화)"
        r"\.?(?:[ _\-]?(?:number|no\.?|nummer|nr\.?|号码?|號碼?|番号|번호))?(?:\\*[\"'])?"
        r"\s*(?:is|ist|[:：=＝是为は])?\s*(?:\\*[\"'])?([+(]?[0-9](?:[ ().\-/]{0,2}[0-9]){6,16})\b",
        phones.find_after_keyword,
        canonical=compact,
        removes_all=True,
    ),
]


DEFAULT_RULES: tuple[Rule, ...] = (
    *PROVIDER_KEY_RULES,
    *_CREDENTIAL_RULES,
    *_DSN_PASSWORD_RULES,
    *NATIONAL_ID_RULES,
    *_PERSONAL_RULES,
    *IP_RULES,
    *ENTROPY_RULES,  # last: whatever else a text is, it has a better name
)

OPTIONAL_RULES: tuple[Rule, ...] = (*NAME_RULES,)
"""Only where a policy names them: they need more than otelchain brings."""

PERSONAL_FAMILIES = frozenset({"national_id", "email", "card", "iban", "phone", "ip"})
"""What tells who somebody is; every other family finds what opens a door."""
