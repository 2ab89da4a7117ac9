"""The default policy against labelled texts built from published formats, and against look-alikes.

Keys are put together from the prefix, alphabet and length that their issuer documents, so that
no text in this file is a key by itself. Identifiers with a checksum are the published examples
of their standards and registries.
"""

# ruff: noqa: RUF001 (full-width and other characters are what is tested)
import random
import string

import pytest

from otelchain import Redactor

ALNUM = string.ascii_letters + string.digits
TOKEN = ALNUM + "_-"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"
BASE64 = ALNUM + "+/"


def made(prefix: str, alphabet: str, length: int, suffix: str = "") -> str:
    """Make a key of a published shape; the same one every time."""
    chosen = random.Random(prefix + suffix)
    body = "".join(chosen.choice(alphabet) for _ in range(length - 2))
    return f"{prefix}A{body}7{suffix}" if alphabet != HEX else f"{prefix}a{body}7{suffix}"


PROVIDER_KEYS = {
    "openai_key": [
        made("sk-" + "proj-", TOKEN, 74, "T3BlbkFJ" + "x" * 20),
        made("sk-" + "svcacct-", TOKEN, 100),
        made("sk-" + "admin-", TOKEN, 60),
    ],
    "sk_key": [made("sk-", ALNUM, 48), made("sk-", HEX, 32)],
    "anthropic_key": [made("sk-ant-" + "api03-", TOKEN, 93, "AA")],
    "openrouter_key": [made("sk-or-" + "v1-", HEX, 64)],
    "langfuse_key": ["sk-lf-" + "6fd1a1b2-7a64-4c11-9d0e-0f6b2f5a3c21"],
    "langsmith_key": [made("lsv2_" + "pt_", HEX, 32, "_0123456789")],
    "google_key": [made("AI" + "za", TOKEN, 35)],
    "huggingface_token": [made("hf" + "_", ALNUM, 34)],
    "groq_key": [made("gsk" + "_", ALNUM, 52)],
    "xai_key": [made("xai" + "-", ALNUM, 80)],
    "replicate_token": [made("r8" + "_", ALNUM, 37)],
    "perplexity_key": [made("pplx" + "-", ALNUM, 48)],
    "nvidia_key": [made("nvapi" + "-", TOKEN, 64)],
    "tavily_key": [made("tvly" + "-dev-", ALNUM, 32)],
    "pinecone_key": [made("pcsk" + "_4xKq2_", ALNUM, 63)],
    "aws_access_key_id": [made("AK" + "IA", UPPER, 16), made("AS" + "IA", UPPER, 16)],
    "github_token": [
        *(made(f"gh{kind}_", ALNUM, 36) for kind in "pousr"),
        made("github" + "_pat_", ALNUM, 22, "_" + "b" * 59),
    ],
    "gitlab_token": [made("gl" + "pat-", TOKEN, 20)],
    "slack_token": ["xox" + "b-263594206564-2343594206574-FGqddMF8t08v8N7Oq4i57vs1"],
    "slack_app_token": ["xapp" + "-1-A0123456789-1234567890123-" + "0af1" * 16],
    "stripe_key": [made("sk" + "_live_", ALNUM, 24), made("rk" + "_live_", ALNUM, 24)],
    "npm_token": [made("npm" + "_", ALNUM, 36)],
    "pypi_token": [made("pypi" + "-AgEIcHlwaS5vcmc", TOKEN, 100)],
    "sendgrid_key": [made("SG" + ".", TOKEN, 22, "." + "q" * 43)],
    "twilio_key": [made("S" + "K", HEX, 32)],
    "digitalocean_token": [made("dop" + "_v1_", HEX, 64)],
    "databricks_token": [made("da" + "pi", HEX, 32)],
    "vault_token": [made("hv" + "s.", TOKEN, 95)],
    "telegram_token": [made("110201543:" + "AA", TOKEN, 33)],
    "shopify_token": [made("shp" + "at_", HEX, 32)],
    "docker_token": [made("dckr" + "_pat_", TOKEN, 27)],
    "azure_storage_key": [made("", BASE64, 86, "==")],
    "grafana_token": [made("gl" + "sa_", ALNUM, 32, "_0a1b2c3d")],
    "notion_token": [made("ntn" + "_", ALNUM, 46)],
    "linear_key": [made("lin" + "_api_", ALNUM, 40)],
}

# Issuers' and standards' examples. Cards: the networks' test numbers.
IDENTIFIERS = {
    "card": [
        "4111111111111111",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "5555555555554444",
        "2223003122003222",
        "378282246310005",
        "3782 822463 10005",
        "6011111111111117",
        "3530111333300000",
        "30569309025904",
        "6200000000000005",
        "5105 1051 0510 5100",
    ],
    "iban": [
        "GB82WEST12345698765432",
        "GB82 WEST 1234 5698 7654 32",
        "DE89370400440532013000",
        "FR1420041010050500013M02606",
        "NL91ABNA0417164300",
        "CH93 0076 2011 6238 5295 7",
        "ES9121000418450200051332",
        "IT60X0542811101000000123456",
        "NO9386011117947",
        "SE4550000000058398257466",
        "BE68 5390 0754 7034",
        "SA0380000000608010167519",
        "MT84MALT011000012345MTLCAST001S",
        "de89370400440532013000",
    ],
    "cn_resident_id": ["11010519491231002X", "360426199101010071"],
    "us_ssn": ["536-90-4399", "SSN: 536904399"],
    "kr_rrn": ["971013-9019902"],
    "br_cpf": ["390.533.447-05"],
    "cl_rut": ["12.531.909-2"],
    "ch_ahv": ["756.9217.0769.85"],
    "it_codice_fiscale": ["RCCMNL83S18D969H"],
    "mx_curp": ["BOXW310820HNERXN09"],
    "fr_nir": ["2 95 10 99 126 111 93"],
    "es_dni": ["54362315K"],
    "es_nie": ["X2482300W"],
    "fi_hetu": ["131052-308T"],
    "no_fodselsnummer": ["15108695088"],
    "be_nn": ["85.07.30-033.28"],
    "in_aadhaar": ["Aadhaar 2341 2341 2346"],
    "pl_pesel": ["PESEL: 44051401359"],
    "de_idnr": ["Steuer-ID 36 574 261 809"],
    "nl_bsn": ["BSN 111222333"],
    "ca_sin": ["SIN 123-456-782"],
    "gb_nhs": ["NHS number 943 476 5870"],
}

CONTACTS = {
    "email": [
        "bob@example.com",
        "first.last+tag@mail.example.co.uk",
        "o'neil@example.ie",
        "jürgen@example.de",
        "user_1@163.com",
        "a@b.museum",
    ],
    "phone": [
        "+14155552671",
        "+1 (415) 555-2671",
        "+44 20 7946 0958",
        "+86 138 1234 5678",
        "+49 30 901820",
        "+33 1 70 18 99 00",
        "+81-3-1234-5678",
        "+55 11 98765-4321",
        "+91 98765 43210",
        "(415) 555-2671",
        "415-555-2671",
        "1-415-555-2671",
        "13812345678",
        "138-1234-5678",
        "010-6552 9988",
        "06 12 34 56 78",
        "07700 900123",
        "090-1234-5678",
        "010-1234-5678",
        "0412 345 678",
        "phone: 4155552671",
        "Tel. 030 12345678",
    ],
}

# Text, and the secret in it that must be gone.
CREDENTIALS = [
    ("jwt", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9", "dozjgNry"),
    ("authorization", "Authorization: Bearer mF_9.B5f-4.1JqM", "mF_9"),  # RFC 6750
    ("authorization", "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "QWxh"),  # RFC 7617
    ("authorization", '{"Authorization": "Token 9944b09199c62bcf9418"}x', "9944b"),
    ("bearer", "sent bearer 7c4a8d09ca3762af61e59520943dc26494f8941b", "7c4a"),
    ("basic", "use Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "QWxh"),
    ("cookie", "Cookie: SID=31d4d96e407aad42; lang=en-US", "31d4"),  # RFC 6265
    ("cookie", "Set-Cookie: SID=31d4d96e407aad42; Path=/; Secure", "31d4"),
    ("url_password", "postgresql://bob:hunter2@db.example.com:5432/app", "hunter2"),
    ("url_password", "redis://:hunter2@cache:6379/0", "hunter2"),
    ("url_password", "amqp://bob:h@nt:r2@mq/vhost", "h@nt"),
    ("url_password", r"https:\/\/bob:hunter2@example.com\/x", "hunter2"),
    ("url_signature", "https://x.blob.core.windows.net/c?sv=1&sig=a1B2%2Bc3D4e5F6g7H8%3D", "a1B2"),
    ("private_key", "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----", "MIIE"),
    ("private_key", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r", "b3Bl"),
    (
        "private_key",
        r"-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----",
        "MHc",
    ),
    ("private_key", "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQdGBF", "lQdG"),
    ("secret", "password=hunter2", "hunter2"),
    ("secret", "password = hunter2", "hunter2"),
    ("secret", "DB_PASSWORD='correct horse battery'", "horse"),
    ("secret", "Password: swordfish", "swordfish"),
    ("secret", "api_key: abcdef", "abcdef"),
    ("secret", "OPENAI_API_KEY=abc123", "abc123"),
    ("secret", 'x {"client_secret": "a b c", "n": 1}', "a b c"),
    ("secret", r'x "{\"password\": \"hunter2\"}"', "hunter2"),
    ("secret", "{'passwd': 'hunter2'}", "hunter2"),
    ("secret", '"password": "cut shor', "cut shor"),
    ("secret", "x-api-key: 5f4dcc3b5aa765d61d8327deb882cf99", "5f4d"),
    ("secret", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJal"),
    ("secret", "AccountName=a;AccountKey=Eby8vdM02xNOcqFlqUwJPLlm==;Suffix=b", "Eby8"),
    ("secret", "Server=db;User Id=sa;Password=Pa,ss1;Encrypt=yes", "Pa,ss1"),
    ("secret", "https://api.example.com/v1?access_token=abc123def&page=2", "abc123def"),
    ("secret", "tool --password hunter2 --verbose", "hunter2"),
    ("secret", "<password>hunter2</password>", "hunter2"),
    ("secret", "my password for the server is hunter2", "hunter2"),
    ("secret", "密码：abc@123，谢谢", "abc@123"),
    ("secret", "数据库密码是hunter2。", "hunter2"),
    ("secret", "验证码：482913", "482913"),
    ("command_password", "curl -u bob:hunter2 https://example.com", "hunter2"),
]

# Things that look like the above and are not.
HARD_NEGATIVES = [
    # numbers
    "order 4155552671 has shipped", "订单号 13812345678", "invoice no. 1234567890123456",
    "4111111111111112", "1234567812345670 is no issuer's", "Created 1732924800, 1732924800123",
    "start_time_unix_nano=1732924800123456789", "2026-11-30T12:00:00.123456+08:00",
    "30/11/2026 12:00",
    "2.4111111111111111", "00000000-0000-0000-a716-586655440000", "version 10.15.7.1020",
    "192.168.100.200:8080", "fe80::ff00:42:8329",
    "ISBN 978-3-16-148410-0", "EAN 4006381333931", "40.712776, -74.005974",
    "+40.7128-074.0060/", "11010519491231002Y", "536-90-439", "000-12-3456",
    "GB83WEST12345698765432",
    "pi is 3.14159265358979323846", "0123456789", "range 100-200-3000", "12345678A",
    "score 0.4155552671", "1,000,000,000.00", "page 12 of 4155552671",
    # ids and hashes
    "550e8400-e29b-41d4-a716-446655440000", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "commit 3f2a9c1", "call_9aZ3kqW1xYbT", "run-4d1c8a2e", "chatcmpl-9xYz12AbCdEf",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "arn:aws:iam::123456789012:role/app", "ami-0abcdef1234567890",
    # words
    "task-force-of-the-quarter-2024-results", "sk-estimator-doc-link-hover", "sk-SK locale",
    "Bearer of bad news", "basic authentication", "Basic training12", "the secret of success",
    "secret: nobody knows", "password must be at least 8 characters", "password is wrong",
    "Password: must contain a digit", "reset your password", "token: the smallest unit of text",
    "max_tokens=1024", "input_tokens: 12", '"total_tokens": 1024', "token_count=512",
    '"next_page_token": "CAUQAA"', "tokenizer: cl100k_base", "pad_token: <pad>",
    "cookie recipe: flour",
    "authorization_url: https://example.com/auth", "the API key is missing", "密码错误，请重试",
    "请重置密码",
    "eyJ is how Base64 of JSON begins", "-----BEGIN CERTIFICATE-----\nMIID\n",
    # code
    "password = get_password()", "api_key=os.environ['KEY']", "token = tokens[0]", "token = ndef",
    "def f(password: str, token: Optional[str]): ...", "password=password", "pwd=${DB_PASSWORD}",
    "https://user:${PASSWORD}@host/", "Authorization: Bearer <token>", "api_key: {{ api_key }}",
    "lodash@4.17.21", "logo@2x.png", "@app.route('/')", "q @ k.transpose(-2, -1)", "w@x.mean()",
    "git@github.com:org/repo.git", "https://user@example.com/", "user@localhost", "@alice and @bob",
    "http://example.com:8080/a@b", "s3://bucket/key",
    "SELECT * FROM t WHERE id = 4155552671",
    # other scripts
    "你好，世界。今天气温23度，湿度45%。", "東京都千代田区1-1-1",
    "مرحبا بالعالم ٢٠٢٦", "👍🏽 100% ✅",
]  # fmt: skip


# What may stand directly beside a card number without being part of it.
BESIDE_A_CARD = [
    "card:{}",
    "cards/{}/",
    "{}/1228",
    "{}|12|28|123",
    "n={},",
    "{}-123",
    "PAN-{}",
    "{}.pdf",
]


def labelled(groups: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(rule, value) for rule, values in groups.items() for value in values]


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor()


SURROUNDINGS = ["{}", "it is {}.", "值为{}，请查收", '"{}"', "a\n{}\nb", r"line\n{}", "({})"]


@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize(("rule", "key"), labelled(PROVIDER_KEYS))
def test_a_key_of_a_known_provider_is_replaced_and_named(
    redactor: Redactor, rule: str, key: str, around: str
) -> None:
    assert redactor.text(around.format(key)) == around.format(f"[REDACTED:{rule}]")


@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize(("rule", "value"), labelled(IDENTIFIERS))
def test_an_identifier_with_a_checksum_is_replaced_and_named(
    redactor: Redactor, rule: str, value: str, around: str
) -> None:
    redacted = redactor.text(around.format(value))

    keyword_gone = around.format(value).replace(value, f"[REDACTED:{rule}]")
    assert f"[REDACTED:{rule}]" in redacted
    assert not any(char.isdigit() for char in redacted)
    assert redacted == keyword_gone or any(char.isspace() for char in value)


@pytest.mark.parametrize(
    "around", ["{}", "it is {}.", "号码{}，请查收", '"{}"', "a\n{}\nb", "({})"]
)
@pytest.mark.parametrize(("rule", "value"), labelled(CONTACTS))
def test_an_address_or_number_is_replaced_and_named(
    redactor: Redactor, rule: str, value: str, around: str
) -> None:
    redacted = redactor.text(around.format(value))

    assert f"[REDACTED:{rule}]" in redacted
    assert "@" not in redacted
    assert not any(char.isdigit() for char in redacted)


@pytest.mark.parametrize(("rule", "text", "secret"), CREDENTIALS)
def test_a_credential_in_text_is_replaced_and_named(
    redactor: Redactor, rule: str, text: str, secret: str
) -> None:
    redacted = redactor.text(text)

    assert secret not in redacted
    assert f"[REDACTED:{rule}]" in redacted


@pytest.mark.parametrize("text", HARD_NEGATIVES)
def test_what_only_looks_like_a_secret_stays(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == text


@pytest.mark.parametrize(
    ("spelling", "rule"),
    [
        ("１３８１２３４５６７８", "phone"),
        ("４１１１ １１１１ １１１１ １１１１", "card"),
        ("ｂｏｂ＠ｅｘａｍｐｌｅ.com", "email"),
        ("+44 20 7946 0958".replace(" ", "\N{NO-BREAK SPACE}"), "phone"),
        ("4111-1111-1111-1111".replace("-", "\N{NON-BREAKING HYPHEN}"), "card"),
    ],
)
def test_full_width_and_typographic_spellings_are_found(
    redactor: Redactor, spelling: str, rule: str
) -> None:
    assert redactor.text(spelling) == f"[REDACTED:{rule}]"


def test_the_host_and_user_of_a_url_stay(redactor: Redactor) -> None:
    redacted = redactor.text("postgresql://bob:hunter2@db.example.com:5432/app")

    assert redacted == "postgresql://bob:[REDACTED:url_password]@db.example.com:5432/app"


def test_a_secret_access_key_beside_its_id_is_found_without_a_name(redactor: Redactor) -> None:
    key_id, secret = made("AK" + "IA", UPPER, 16), made("wJalr", BASE64, 35)

    assert secret not in redactor.text(f"{key_id},{secret}")


@pytest.mark.parametrize("around", BESIDE_A_CARD)
def test_a_card_number_with_something_directly_beside_it_is_found(
    redactor: Redactor, around: str
) -> None:
    assert redactor.text(around.format("4111111111111111")) == around.format("[REDACTED:card]")


def test_a_number_after_a_keyword_ends_before_the_next_number(redactor: Redactor) -> None:
    assert redactor.text("phone: 4155552671 9876543") == "phone: [REDACTED:phone] 9876543"


def test_numbers_in_a_list_without_spaces_are_all_found(redactor: Redactor) -> None:
    assert redactor.text("13812345678,13912345678/13712345678") == (
        "[REDACTED:phone],[REDACTED:phone]/[REDACTED:phone]"
    )
