"""The default policy: published shapes of secrets and personal identifiers.

Each shape is the issuer's own: its documentation or what its keys look like in public. A shape
has a lower bound only where issuers lengthen their keys. Order is the order in which rules are
named when two find the same characters.
"""

# ruff: noqa: RUF001 (full-width punctuation is what the patterns look for)
from __future__ import annotations

import re
from collections.abc import Callable

from otelchain.redaction import checksums, phones
from otelchain.redaction.checksums import compact, separate, stdnum_check
from otelchain.redaction.provider_keys import PROVIDER_KEY_RULES
from otelchain.redaction.rules import Match, Rule, Span, checked, last_group


def _find_authorization(match: Match) -> list[Span]:
    (span,) = last_group(match)
    value = match.string[span.start : span.end]
    return [] if _TEMPLATE.search(value) else [span]


def _find_email(match: Match) -> list[Span]:
    text, start, end = match.string, match.start(), match.end()
    address = text[start:end]
    local, _, domain = address.rpartition("@")
    ending = domain.rsplit(".", 1)[-1].lower()
    is_call = text[end : end + 1] == "(" and len(ending) > 2 and ending not in _TOP_LEVEL
    is_code = ending in _FILE_ENDINGS or is_call
    labels = domain.split(".")
    is_version = labels[0].isdigit() and labels[1][:1].isdigit()
    # scheme://user:password@host is the URL rule's; git@host is an address of a machine.
    before = text[max(0, start - 256) : start].replace("\\", "")
    in_url = "://" in before and not set(before.rpartition("://")[2]) & set(" \t\n/?#\"'<>,")
    if is_code or is_version or in_url or local == "git":
        return []
    return [Span(start, end)]


def _find_url_password(match: Match) -> list[Span]:
    (span,) = last_group(match)
    return [] if _TEMPLATE.search(" " + match.string[span.start : span.end]) else [span]


_FILE_ENDINGS = frozenset(
    ["png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "ts", "py", "md", "json", "html"]
)
# q@k.sum(…) is a product of matrices, bob@example.com(…) is not
_TOP_LEVEL = frozenset(
    ["com", "org", "net", "edu", "gov", "mil", "int", "info", "biz", "dev", "app"]
)
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

_PERSONAL_RULES = [
    Rule(
        "email",
        "email",
        # RFC 5321 dot-atoms with Latin letters; quoted local parts are not in use
        r"[A-Za-z0-9_\x{C0}-\x{24F}](?:[A-Za-z0-9._%+'\-\x{C0}-\x{24F}]*"
        r"[A-Za-z0-9_+\-\x{C0}-\x{24F}])?"
        r"@[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?"
        r"(?:\.[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?)*\.[A-Za-z]{2,24}",
        _find_email,
        first=r"@[A-Za-z0-9][A-Za-z0-9.\-]*\.[A-Za-z]{2}",
    ),
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
        r"(?:[ _\-]?(?:number|no\.?|nummer|nr\.?|号码?|號碼?|番号|번호))?(?:\\*[\"'])?"
        r"\s*(?:is|ist|[:：=＝是为は])?\s*(?:\\*[\"'])?([+(]?[0-9](?:[ ().\-/]{0,2}[0-9]){6,16})\b",
        phones.find_after_keyword,
        canonical=compact,
        removes_all=True,
    ),
]


def _national_id(
    name: str, pattern: str, module: str, spelling: Callable[[str], str] = compact
) -> Rule:
    check = stdnum_check(module)
    return Rule(
        name,
        "national_id",
        pattern,
        separate(checked(lambda value: check(spelling(value)), last_group)),
        canonical=compact,
        removes_all=True,  # with the keyword, which would make the next number one
    )


def _after(keyword: str, number: str) -> str:
    link = r"[^0-9A-Za-z\n]{0,3}(?:(?:number|no\.?|nr\.?|is)[^0-9A-Za-z\n]{0,3}){0,2}"
    return rf"(?i)(?:{keyword}){link}({number})\b"


_NATIONAL_ID_RULES = [
    # Written in a form of their own, with a check that random digits seldom pass
    _national_id("cn_resident_id", r"\b[1-9][0-9]{16}[0-9Xx]", "cn.ric"),
    _national_id("us_ssn", r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b", "us.ssn"),
    _national_id("kr_rrn", r"\b[0-9]{6}-[0-9]{7}\b", "kr.rrn"),
    _national_id("br_cpf", r"\b[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}\b", "br.cpf"),
    _national_id("cl_rut", r"\b[0-9]{1,2}\.[0-9]{3}\.[0-9]{3}-[0-9Kk]\b", "cl.rut"),
    _national_id("ch_ahv", r"\b756\.?[0-9]{4}\.?[0-9]{4}\.?[0-9]{2}\b", "ch.ssn"),
    _national_id(
        "it_codice_fiscale",
        r"(?i)\b[A-Z]{6}[0-9LMNP-V]{2}[A-EHLMPR-T][0-9LMNP-V]{2}[A-Z][0-9LMNP-V]{3}[A-Z]\b",
        "it.codicefiscale",
    ),
    _national_id("mx_curp", r"(?i)\b[A-Z]{4}[0-9]{6}[HMX][A-Z]{5}[A-Z0-9][0-9]\b", "mx.curp"),
    _national_id(
        "fr_nir",
        r"\b[12] ?[0-9]{2} ?[01][0-9] ?[0-9][0-9AB] ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}\b",
        "fr.nir",
    ),
    _national_id("es_dni", r"\b[0-9]{8}-?[A-HJ-NP-TV-Z]\b", "es.dni"),
    _national_id("es_nie", r"\b[XYZ]-?[0-9]{7}-?[A-HJ-NP-TV-Z]\b", "es.nie"),
    _national_id(
        "fi_hetu", r"\b[0-3][0-9][01][0-9]{3}[-A+][0-9]{3}[0-9A-Y]\b", "fi.hetu", str.upper
    ),
    _national_id("no_fodselsnummer", r"\b[0-7][0-9][0-9]{4} ?[0-9]{5}\b", "no.fodselsnummer"),
    _national_id("be_nn", r"\b[0-9]{2}\.[0-9]{2}\.[0-9]{2}-[0-9]{3}\.[0-9]{2}\b", "be.nn"),
    # Plain digits: only after their name
    _national_id(
        "us_ssn",
        _after(r"\bssn|social security", r"[0-9]{3}[ \-]?[0-9]{2}[ \-]?[0-9]{4}"),
        "us.ssn",
    ),
    _national_id(
        "in_aadhaar", _after("aadhaa?r|आधार", r"[2-9][0-9]{3} ?[0-9]{4} ?[0-9]{4}"), "in_.aadhaar"
    ),
    _national_id("pl_pesel", _after("pesel", r"[0-9]{11}"), "pl.pesel"),
    _national_id(
        "de_idnr",
        _after(
            r"steuer-?id\w*|\bidnr|steuerliche identifikationsnummer", r"[0-9]{2}(?: ?[0-9]{3}){3}"
        ),
        "de.idnr",
    ),
    _national_id("nl_bsn", _after(r"\bbsn|burgerservicenummer", r"[0-9]{9}"), "nl.bsn"),
    _national_id(
        "ca_sin",
        _after(r"\bsin|social insurance", r"[0-9]{3}[ \-]?[0-9]{3}[ \-]?[0-9]{3}"),
        "ca.sin",
    ),
    _national_id("au_tfn", _after(r"\btfn|tax file", r"[0-9]{3} ?[0-9]{3} ?[0-9]{2,3}"), "au.tfn"),
    _national_id("gb_nhs", _after(r"\bnhs", r"[0-9]{3}[ \-]?[0-9]{3}[ \-]?[0-9]{4}"), "gb.nhs"),
    _national_id(
        "se_personnummer",
        _after(r"personnummer", r"(?:[0-9]{2})?[0-9]{6}[-+]?[0-9]{4}"),
        "se.personnummer",
        str,
    ),
    _national_id("br_cpf", _after(r"\bcpf", r"[0-9]{11}"), "br.cpf"),
    _national_id("tr_tckimlik", _after(r"t\.?c\.? ?kimlik\w*", r"[1-9][0-9]{10}"), "tr.tckimlik"),
]

DEFAULT_RULES: tuple[Rule, ...] = (
    *PROVIDER_KEY_RULES,
    *_CREDENTIAL_RULES,
    *_NATIONAL_ID_RULES,
    *_PERSONAL_RULES,
)
