"""National identity numbers, each with the check of its own registry (python-stdnum).

A number in a form of its own (letters, dots, hyphens) is taken wherever it stands; plain digits
only behind the name that the country has for them, because ten random digits pass most checks
once in ten times.
"""

# ruff: noqa: RUF001 (names in other scripts)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import lru_cache
from importlib import import_module

from otelchain.redaction.checksums import compact, separate, stdnum_check
from otelchain.redaction.phones import is_named_otherwise
from otelchain.redaction.rules import Match, Rule, Span, checked, last_group


def _in_own_form(
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


def _unnamed(name: str, pattern: str, module: str) -> Rule:
    """Digits alone: what the text calls an order, a ticket or an account is none."""
    rule = _in_own_form(name, pattern, module)

    def find(match: Match) -> list[Span]:
        return [] if is_named_otherwise(match.string, match.start()) else list(rule.find(match))

    return replace(rule, find=find)


@lru_cache(maxsize=1024)
def is_cn_resident_id(number: str) -> bool:
    """Check province, date and digit (GB 11643).

    python-stdnum's cn.ric also wants the place to have been a district when the holder was born,
    but cards name the place as of their first issue.

    >>> is_cn_resident_id("11010519491231002X"), is_cn_resident_id("110105194912310020")
    (True, False)
    """
    if number[:2] not in _PROVINCES or not import_module("stdnum.iso7064.mod_11_2").is_valid(
        number
    ):
        return False
    try:
        return date(int(number[6:10]), int(number[10:12]), int(number[12:14])).year >= 1900
    except ValueError:
        return False


# GB/T 2260: the provinces, Taiwan, Hong Kong, Macao, and residence permits of foreigners
_PROVINCES = frozenset(
    str(code)
    for first, last in ((11, 15), (21, 23), (31, 37), (41, 46), (50, 54), (61, 65))
    for code in range(first, last + 1)
) | {"71", "81", "82", "83", "91"}


def _after(
    name: str, keyword: str, number: str, module: str, spelling: Callable[[str], str] = compact
) -> Rule:
    words = r"nummer|number|num|no\.?|nr\.?|is|ist|es|是|为|は"
    link = rf"[^0-9A-Za-z\n]{{0,3}}(?:(?:{words})[^0-9A-Za-z\n]{{0,3}}){{0,2}}"
    pattern = rf"(?i)(?:{keyword}){link}({number})\b"
    return _in_own_form(name, pattern, module, spelling)


NATIONAL_ID_RULES = [
    # Written in a form of their own, with a check that random characters seldom pass
    Rule(
        "cn_resident_id",
        "national_id",
        r"\b[1-9][0-9]{16}[0-9Xx]",
        separate(checked(lambda value: is_cn_resident_id(compact(value)))),
        canonical=compact,
    ),
    _in_own_form("us_ssn", r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b", "us.ssn"),
    _in_own_form("kr_rrn", r"\b[0-9]{6}-[0-9]{7}\b", "kr.rrn"),
    _in_own_form("br_cpf", r"\b[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}\b", "br.cpf"),
    _in_own_form("cl_rut", r"\b[0-9]{1,2}\.[0-9]{3}\.[0-9]{3}-[0-9Kk]\b", "cl.rut"),
    _in_own_form("ch_ahv", r"\b756\.?[0-9]{4}\.?[0-9]{4}\.?[0-9]{2}\b", "ch.ssn"),
    _in_own_form(
        "it_codice_fiscale",
        r"(?i)\b[A-Z]{6}[0-9LMNP-V]{2}[A-EHLMPR-T][0-9LMNP-V]{2}[A-Z][0-9LMNP-V]{3}[A-Z]\b",
        "it.codicefiscale",
    ),
    _in_own_form("mx_curp", r"(?i)\b[A-Z]{4}[0-9]{6}[HMX][A-Z]{5}[A-Z0-9][0-9]\b", "mx.curp"),
    _unnamed(
        "fr_nir",
        r"\b[12] ?[0-9]{2} ?[01][0-9] ?[0-9][0-9AB] ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}\b",
        "fr.nir",
    ),
    _in_own_form("es_dni", r"\b[0-9]{8}-?[A-HJ-NP-TV-Z]\b", "es.dni"),
    _in_own_form("es_nie", r"\b[XYZ]-?[0-9]{7}-?[A-HJ-NP-TV-Z]\b", "es.nie"),
    _in_own_form(
        "fi_hetu", r"\b[0-3][0-9][01][0-9]{3}[-A+][0-9]{3}[0-9A-Y]\b", "fi.hetu", str.upper
    ),
    _unnamed("no_fodselsnummer", r"\b[0-7][0-9][0-9]{4} ?[0-9]{5}\b", "no.fodselsnummer"),
    _in_own_form("be_nn", r"\b[0-9]{2}\.[0-9]{2}\.[0-9]{2}-[0-9]{3}\.[0-9]{2}\b", "be.nn"),
    _in_own_form("ar_cuit", r"\b(?:20|2[3-7]|30|33|34)-[0-9]{8}-[0-9]\b", "ar.cuit"),
    _in_own_form("pk_cnic", r"\b[1-7][0-9]{4}-[0-9]{7}-[0-9]\b", "pk.cnic"),
    _in_own_form("co_nit", r"\b[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]\b", "co.nit"),
    _in_own_form("th_pin", r"\b[1-8]-[0-9]{4}-[0-9]{5}-[0-9]{2}-[0-9]\b", "th.pin"),
    _in_own_form("do_cedula", r"\b[0-9]{3}-[0-9]{7}-[0-9]\b", "do.cedula"),
    _in_own_form("pt_cc", r"\b[0-9]{8} ?[0-9] ?[A-Z]{2}[0-9]\b", "pt.cc"),
    # Plain digits: only after their name
    _after("us_ssn", r"\bssn|social security", r"[0-9]{3}[ \-]?[0-9]{2}[ \-]?[0-9]{4}", "us.ssn"),
    _after("in_aadhaar", "aadhaa?r|आधार", r"[2-9][0-9]{3} ?[0-9]{4} ?[0-9]{4}", "in_.aadhaar"),
    _after("in_pan", r"\bpan\b", r"[A-Z]{3}[ABCFGHLJPTK][A-Z][0-9]{4}[A-Z]", "in_.pan"),
    _after("pl_pesel", "pesel", r"[0-9]{11}", "pl.pesel"),
    _after(
        "de_idnr",
        r"steuer-?id\w*|\bidnr|steuerliche identifikationsnummer",
        r"[0-9]{2}(?: ?[0-9]{3}){3}",
        "de.idnr",
    ),
    _after("nl_bsn", r"\bbsn|burgerservicenummer", r"[0-9]{9}", "nl.bsn"),
    _after(
        "ca_sin",
        r"\bsin|social insurance",
        r"[0-9]{3}[ \-]?[0-9]{3}[ \-]?[0-9]{3}",
        "ca.sin",
    ),
    _after("au_tfn", r"\btfn|tax file", r"[0-9]{3} ?[0-9]{3} ?[0-9]{2,3}", "au.tfn"),
    _after("nz_ird", r"\bird", r"[0-9]{2,3}[ \-]?[0-9]{3}[ \-]?[0-9]{3}", "nz.ird"),
    _after("gb_nhs", r"\bnhs", r"[0-9]{3}[ \-]?[0-9]{3}[ \-]?[0-9]{4}", "gb.nhs"),
    _after("ie_pps", r"\bpps\w*", r"[0-9]{7}[A-W][A-IW]?", "ie.pps"),
    _after(
        "se_personnummer",
        r"personnummer",
        r"(?:[0-9]{2})?[0-9]{6}[-+]?[0-9]{4}",
        "se.personnummer",
        str,
    ),
    _after("dk_cpr", r"\bcpr\w*", r"[0-9]{6}-?[0-9]{4}", "dk.cpr"),
    _after("is_kennitala", r"kennitala", r"[0-9]{6}-?[0-9]{4}", "is_.kennitala"),
    _after("ee_ik", r"isikukood", r"[1-8][0-9]{10}", "ee.ik"),
    _after("lt_asmens", r"asmens kodas", r"[1-8][0-9]{10}", "lt.asmens"),
    _after("cz_rc", r"rodn[ée] č[íi]slo", r"[0-9]{6}/?[0-9]{3,4}", "cz.rc"),
    _after("ro_cnp", r"\bcnp", r"[1-9][0-9]{12}", "ro.cnp"),
    _after("bg_egn", r"егн|\begn", r"[0-9]{10}", "bg.egn"),
    _after("hr_oib", r"\boib", r"[0-9]{11}", "hr.oib"),
    _after("si_emso", r"emšo|\bemso", r"[0-9]{13}", "si.emso"),
    _after("gr_amka", r"α\.?μ\.?κ\.?α\.?|\bamka", r"[0-9]{11}", "gr.amka"),
    _after("ua_rntrc", r"рнокпп|\brntrc", r"[0-9]{10}", "ua.rntrc"),
    _after("ru_inn", r"инн|\binn", r"[0-9]{12}", "ru.inn"),
    _after("br_cpf", r"\bcpf", r"[0-9]{11}", "br.cpf"),
    _after("ec_ci", r"c[ée]dula", r"[0-2][0-9]{8}-?[0-9]", "ec.ci"),
    _after("tr_tckimlik", r"t\.?c\.? ?kimlik\w*", r"[1-9][0-9]{10}", "tr.tckimlik"),
    _after("il_id", r"teudat zehut|תעודת זהות|ת\.?ז\.?", r"[0-9]{8}-?[0-9]", "il.idnr"),
    _after("za_id", r"\bsa id|south african id", r"[0-9]{6} ?[0-9]{4} ?[0-9]{2} ?[0-9]", "za.idnr"),
    _after(
        "jp_my_number",
        r"マイナンバー|個人番号|my number",
        r"[0-9]{4} ?[0-9]{4} ?[0-9]{4}",
        "jp.in_",
    ),
    _after("th_pin", r"เลขประจำตัวประชาชน|thai id", r"[1-8][0-9]{12}", "th.pin"),
    _after("my_nric", r"mykad|\bnric|kad pengenalan", r"[0-9]{6}-?[0-9]{2}-?[0-9]{4}", "my.nric"),
    _after("id_nik", r"\bnik", r"[0-9]{16}", "id.nik"),
]
