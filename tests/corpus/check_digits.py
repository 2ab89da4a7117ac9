"""Check digits worked out from the registries' own descriptions, for numbers that nobody has.

An oracle for the detectors: nothing here comes from them or from the library that they use.
"""

# ruff: noqa: E501 (a formula is read in one line)
import random
import string
from collections.abc import Callable, Sequence

DIGITS = string.digits
Numbers = Callable[[random.Random], str]


def digits(chosen: random.Random, count: int, first: str = DIGITS) -> str:
    return chosen.choice(first) + "".join(chosen.choice(DIGITS) for _ in range(count - 1))


def weighted(number: str, weights: Sequence[int]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(number, weights, strict=True))


def luhn_digit(number: str) -> str:
    """ISO/IEC 7812 annex B."""
    total = 0
    for place, digit in enumerate(reversed(number)):
        value = int(digit) * (2 if place % 2 == 0 else 1)
        total += value // 10 + value % 10
    return str(-total % 10)


def with_luhn(number: str) -> str:
    return number + luhn_digit(number)


def iban(country: str, bban: str) -> str:
    """ISO 13616: ISO 7064 mod 97-10 over the letters as 10 to 35."""
    rest = int("".join(str(int(char, 36)) for char in bban + country + "00")) % 97
    return f"{country}{98 - rest:02d}{bban}"


def mod_11_2(number: str) -> str:
    """ISO 7064 mod 11-2."""
    total = 0
    for digit in number:
        total = (total + int(digit)) * 2 % 11
    return "0123456789X"[(12 - total) % 11]


def mod_11_10(number: str) -> str:
    """ISO 7064 mod 11,10."""
    product = 10
    for digit in number:
        product = ((product + int(digit)) % 10 or 10) * 2 % 11
    return str((11 - product) % 10)


_D = [
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
]  # fmt: skip
_P = [
    "0123456789", "1576283094", "5803796142", "8916043527",
    "9453126870", "4286573901", "2793806415", "7046913258",
]  # fmt: skip


def verhoeff_digit(number: str) -> str:
    """Verhoeff 1969: dihedral group D5."""
    check = 0
    for place, digit in enumerate(reversed(number), start=1):
        check = int(_D[check][int(_P[place % 8][int(digit)])])
    return next(str(d) for d in range(10) if _D[check][d] == "0")


def until(make: Callable[[], str | None]) -> str:
    """Try again where a registry has no check digit for a number."""
    while True:
        number = make()
        if number is not None:
            return number


def cn_resident_id(r: random.Random) -> str:  # GB 11643-1999
    place = r.choice(["110105", "310104", "440305", "510107"])
    body = f"{place}19{r.randint(50, 99)}{r.randint(1, 12):02d}{r.randint(1, 28):02d}{digits(r, 3)}"
    return body + mod_11_2(body)


def kr_rrn(r: random.Random) -> str:
    body = f"{r.randint(50, 99)}{r.randint(1, 12):02d}{r.randint(1, 28):02d}{r.choice('12')}{digits(r, 5, '0')}"
    total = weighted(body, [2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5])
    return f"{body[:6]}-{body[6:]}{(11 - total % 11) % 10}"


def cpf(r: random.Random) -> str:
    body = digits(r, 9)
    for _ in range(2):
        rest = weighted(body, range(len(body) + 1, 1, -1)) * 10 % 11
        body += str(rest % 10)
    return body


def dotted_cpf(r: random.Random) -> str:
    n = cpf(r)
    return f"{n[:3]}.{n[3:6]}.{n[6:9]}-{n[9:]}"


def cl_rut(r: random.Random) -> str:
    body = digits(r, 8, "12")
    total = sum(int(d) * w for d, w in zip(reversed(body), [2, 3, 4, 5, 6, 7, 2, 3], strict=True))
    check = "0123456789K0"[11 - total % 11] if total % 11 else "0"
    return f"{body[:2]}.{body[2:5]}.{body[5:]}-{check}"


def ch_ahv(r: random.Random) -> str:  # EAN-13
    body = "756" + digits(r, 9)
    check = -weighted(body, [1, 3] * 6) % 10
    return f"756.{body[3:7]}.{body[7:11]}.{body[11]}{check}"


def fr_nir(r: random.Random) -> str:
    body = f"{r.choice('12')}{r.randint(50, 99)}{r.randint(1, 12):02d}{r.randint(21, 89)}{r.randint(1, 900):03d}{r.randint(1, 999):03d}"
    n = f"{body}{97 - int(body) % 97:02d}"
    return f"{n[0]} {n[1:3]} {n[3:5]} {n[5:7]} {n[7:10]} {n[10:13]} {n[13:]}"


_DNI = "TRWAGMYFPDXBNJZSQVHLCKE"


def es_dni(r: random.Random) -> str:
    body = digits(r, 8)
    return body + _DNI[int(body) % 23]


def es_nie(r: random.Random) -> str:
    first, body = r.choice("XYZ"), digits(r, 7)
    return f"{first}{body}{_DNI[int(str('XYZ'.index(first)) + body) % 23]}"


def fi_hetu(r: random.Random) -> str:
    date = f"{r.randint(1, 28):02d}{r.randint(1, 12):02d}{r.randint(50, 99)}"
    individual = f"{r.randint(2, 899):03d}"
    return f"{date}-{individual}{'0123456789ABCDEFHJKLMNPRSTUVWXY'[int(date + individual) % 31]}"


def no_fodselsnummer(r: random.Random) -> str:
    def make() -> str | None:
        body = f"{r.randint(1, 28):02d}{r.randint(1, 12):02d}{r.randint(54, 99)}{r.randint(0, 499):03d}"
        one = -weighted(body, [3, 7, 6, 1, 8, 9, 4, 5, 2]) % 11
        two = -weighted(f"{body}{one}", [5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11 if one < 10 else 10
        return f"{body}{one}{two}" if two < 10 else None

    return until(make)


def be_nn(r: random.Random) -> str:
    date = f"{r.randint(50, 99)}{r.randint(1, 12):02d}{r.randint(1, 28):02d}"
    counter = f"{r.randint(1, 997):03d}"
    check = 97 - int(date + counter) % 97
    return f"{date[:2]}.{date[2:4]}.{date[4:]}-{counter}.{check:02d}"


def ar_cuit(r: random.Random) -> str:
    def make() -> str | None:
        body = r.choice(["20", "27", "30"]) + digits(r, 8, "123")
        rest = 11 - weighted(body, [5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11
        return None if rest == 10 else f"{body[:2]}-{body[2:]}-{rest % 11}"

    return until(make)


def pk_cnic(r: random.Random) -> str:  # no check digit; the province is the first
    return f"{digits(r, 5, '1234567')}-{digits(r, 7)}-{digits(r, 1, '123456789')}"


def th_pin(r: random.Random) -> str:
    body = digits(r, 12, "12345678")
    return f"{body}{(11 - weighted(body, range(13, 1, -1)) % 11) % 10}"


def dashed_th_pin(r: random.Random) -> str:
    n = th_pin(r)
    return f"{n[0]}-{n[1:5]}-{n[5:10]}-{n[10:12]}-{n[12]}"


def do_cedula(r: random.Random) -> str:
    n = with_luhn(digits(r, 10, "04"))
    return f"{n[:3]}-{n[3:10]}-{n[10]}"


def co_nit(r: random.Random) -> str:
    body = digits(r, 9, "89")
    rest = (
        sum(
            int(d) * w
            for d, w in zip(reversed(body), [3, 7, 13, 17, 19, 23, 29, 37, 41], strict=True)
        )
        % 11
    )
    return f"{body[:3]}.{body[3:6]}.{body[6:]}-{rest if rest < 2 else 11 - rest}"


_ODD = dict(zip("0123456789", [1, 0, 5, 7, 9, 13, 15, 17, 19, 21], strict=True)) | dict(
    zip(
        string.ascii_uppercase,
        [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23],
        strict=True,
    )
)  # fmt: skip


def it_codice_fiscale(r: random.Random) -> str:  # D.M. 12/03/1974
    letters = "".join(r.choice("BCDFGLMNPRSTV") for _ in range(6))
    body = f"{letters}{r.randint(50, 99)}{r.choice('ABCDEHLMPRST')}{r.randint(1, 28):02d}{r.choice(['H501', 'F205', 'L219'])}"
    total = sum(
        _ODD[c] if i % 2 == 0 else int(c, 36) - (0 if c.isdigit() else 10)
        for i, c in enumerate(body)
    )
    return body + string.ascii_uppercase[total % 26]


def mx_curp(r: random.Random) -> str:
    letters = r.choice(["GOMC", "PERJ", "LOHM", "SARD"])
    body = f"{letters}{r.randint(50, 99)}{r.randint(1, 12):02d}{r.randint(1, 28):02d}{r.choice('HM')}DF{r.choice(['RRL', 'MNS', 'PZT'])}0"
    alphabet = "0123456789ABCDEFGHIJKLMNÑOPQRSTUVWXYZ"
    total = sum(alphabet.index(char) * (18 - place) for place, char in enumerate(body))
    return f"{body}{-total % 10}"


def pt_cc(r: random.Random) -> str:
    body = digits(r, 8, "1")
    check = 11 - weighted(body, range(9, 1, -1)) % 11
    number = body + str(check if check < 10 else 0) + r.choice(["ZZ", "ZX", "YW"])
    total = 0
    for place, char in enumerate(reversed(number), start=1):
        value = int(char, 36) * (2 if place % 2 else 1)
        total += value - 9 if place % 2 and value > 9 else value
    return f"{number}{-total % 10}"


def us_ssn(r: random.Random) -> str:  # no check digit: 001 to 899 without 666, no zero groups
    return f"{r.randint(100, 599):03d}-{r.randint(10, 99)}-{r.randint(1000, 9999)}"


def aadhaar(r: random.Random) -> str:
    body = digits(r, 11, "23456789")
    n = body + verhoeff_digit(body)
    return f"{n[:4]} {n[4:8]} {n[8:]}"


def in_pan(r: random.Random) -> str:  # no check digit published; P is a person
    return f"{''.join(r.choice('ABCDEFGH') for _ in range(3))}P{r.choice('KLMN')}{digits(r, 4, '123')}{r.choice('QRST')}"


def pesel(r: random.Random) -> str:
    body = f"{r.randint(50, 99)}{r.randint(1, 12):02d}{r.randint(1, 28):02d}{digits(r, 4)}"
    return f"{body}{-weighted(body, [1, 3, 7, 9, 1, 3, 7, 9, 1, 3]) % 10}"


def de_idnr(r: random.Random) -> str:  # one digit twice among the first ten, one not at all
    order = r.sample(DIGITS, 9)
    order.insert(r.randint(2, 9), order[0])
    if order[0] == "0":
        order[0], order[1] = order[1], order[0]
    body = "".join(order)
    return body + mod_11_10(body)


def nl_bsn(r: random.Random) -> str:
    def make() -> str | None:
        body = digits(r, 8, "12345")
        rest = weighted(body, range(9, 1, -1)) % 11
        return None if rest == 10 else f"{body}{rest}"

    return until(make)


def ca_sin(r: random.Random) -> str:
    n = with_luhn(digits(r, 8, "1234567"))
    return f"{n[:3]} {n[3:6]} {n[6:]}"


def au_tfn(r: random.Random) -> str:
    weights = [1, 4, 3, 7, 5, 8, 6, 9, 10]

    def make() -> str | None:
        body = digits(r, 8, "123456789")
        return next((f"{body}{d}" for d in DIGITS if weighted(body + d, weights) % 11 == 0), None)

    return until(make)


def nz_ird(r: random.Random) -> str:
    def make() -> str | None:
        body = f"0{r.randint(10_000_000, 14_999_999) // 1}"[-8:]
        rest = weighted(body, [3, 2, 7, 6, 5, 4, 3, 2]) % 11
        check = 0 if rest == 0 else 11 - rest
        return None if check == 10 else f"{body.lstrip('0')}{check}"

    return until(make)


def gb_nhs(r: random.Random) -> str:
    def make() -> str | None:
        body = digits(r, 9, "4")
        check = 11 - weighted(body, range(10, 1, -1)) % 11
        n = f"{body}{check % 11}"
        return None if check == 10 else f"{n[:3]} {n[3:6]} {n[6:]}"

    return until(make)


def ie_pps(r: random.Random) -> str:
    body = digits(r, 7, "1234567")
    return f"{body}{'WABCDEFGHIJKLMNOPQRSTUV'[weighted(body, range(8, 1, -1)) % 23]}"


def personnummer(r: random.Random) -> str:
    date = f"{r.randint(50, 99)}{r.randint(1, 12):02d}{r.randint(1, 28):02d}"
    n = with_luhn(date + digits(r, 3))
    return f"{n[:6]}-{n[6:]}"


def kennitala(r: random.Random) -> str:
    def make() -> str | None:
        body = f"{r.randint(1, 28):02d}{r.randint(1, 12):02d}{r.randint(50, 99)}{r.randint(20, 99)}"
        check = -weighted(body, [3, 2, 7, 6, 5, 4, 3, 2]) % 11
        return None if check == 10 else f"{body[:6]}-{body[6:]}{check}9"

    return until(make)


def dk_cpr(r: random.Random) -> str:  # before 2007
    def make() -> str | None:
        body = f"{r.randint(1, 28):02d}{r.randint(1, 12):02d}{r.randint(50, 99)}{r.randint(1, 399):03d}"
        check = -weighted(body, [4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11
        return None if check == 10 else f"{body[:6]}-{body[6:]}{check}"

    return until(make)


def baltic(r: random.Random) -> str:  # Estonia, Lithuania
    body = f"{r.choice('34')}{r.randint(50, 99)}{r.randint(1, 12):02d}{r.randint(1, 28):02d}{digits(r, 3)}"
    rest = weighted(body, [1, 2, 3, 4, 5, 6, 7, 8, 9, 1]) % 11
    if rest == 10:
        rest = weighted(body, [3, 4, 5, 6, 7, 8, 9, 1, 2, 3]) % 11
    return f"{body}{rest % 10}"


def cz_rc(r: random.Random) -> str:
    def make() -> str | None:
        body = f"{r.randint(60, 99)}{r.randint(1, 12):02d}{r.randint(1, 28):02d}{digits(r, 3)}"
        rest = int(body) % 11
        return None if rest == 10 else f"{body[:6]}/{body[6:]}{rest}"

    return until(make)


def ro_cnp(r: random.Random) -> str:
    body = f"{r.choice('12')}{r.randint(50, 99)}{r.randint(1, 12):02d}{r.randint(1, 28):02d}{r.randint(1, 40):02d}{r.randint(1, 999):03d}"
    rest = weighted(body, [2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9]) % 11
    return f"{body}{1 if rest == 10 else rest}"


def bg_egn(r: random.Random) -> str:
    body = f"{r.randint(50, 99)}{r.randint(1, 12):02d}{r.randint(1, 28):02d}{digits(r, 3)}"
    return f"{body}{weighted(body, [2, 4, 8, 5, 10, 9, 7, 3, 6]) % 11 % 10}"


def hr_oib(r: random.Random) -> str:
    body = digits(r, 10)
    return body + mod_11_10(body)


def si_emso(r: random.Random) -> str:
    def make() -> str | None:
        body = f"{r.randint(1, 28):02d}{r.randint(1, 12):02d}9{r.randint(50, 99)}50{digits(r, 3)}"
        check = -weighted(body, [7, 6, 5, 4, 3, 2] * 2) % 11
        return None if check == 10 else f"{body}{check}"

    return until(make)


def gr_amka(r: random.Random) -> str:
    return with_luhn(
        f"{r.randint(1, 28):02d}{r.randint(1, 12):02d}{r.randint(50, 99)}{digits(r, 4)}"
    )


def ua_rntrc(r: random.Random) -> str:
    body = digits(r, 9, "23")
    return f"{body}{weighted(body, [-1, 5, 7, 9, 4, 6, 10, 5, 7]) % 11 % 10}"


def ru_inn(r: random.Random) -> str:
    body = digits(r, 10, "57")
    body += str(weighted(body, [7, 2, 4, 10, 3, 5, 9, 4, 6, 8]) % 11 % 10)
    return f"{body}{weighted(body, [3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8]) % 11 % 10}"


def ec_ci(r: random.Random) -> str:
    return with_luhn(f"{r.randint(1, 24):02d}{r.randint(0, 5)}{digits(r, 6)}")


def tckimlik(r: random.Random) -> str:
    body = digits(r, 9, "123456789")
    odd, even = sum(map(int, body[::2])), sum(map(int, body[1::2]))
    body += str((odd * 7 - even) % 10)
    return f"{body}{sum(map(int, body)) % 10}"


def il_id(r: random.Random) -> str:
    return with_luhn(digits(r, 8, "0123"))


def za_id(r: random.Random) -> str:
    return with_luhn(
        f"{r.randint(50, 99)}{r.randint(1, 12):02d}{r.randint(1, 28):02d}{digits(r, 4)}08"
    )


def jp_my_number(r: random.Random) -> str:
    body = digits(r, 11, "123456789")
    rest = weighted(body, [6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11
    return f"{body}{0 if rest <= 1 else 11 - rest}"


def my_nric(r: random.Random) -> str:  # no check digit: a date and a place of birth
    return f"{r.randint(60, 99)}{r.randint(1, 12):02d}{r.randint(1, 28):02d}-{r.choice(['01', '08', '14'])}-{digits(r, 4)}"


def id_nik(r: random.Random) -> str:  # no check digit: place, date, number
    return f"317{r.randint(1, 5)}0{r.randint(1, 8)}{r.randint(1, 28):02d}{r.randint(1, 12):02d}{r.randint(60, 99)}{r.randint(1, 999):04d}"
