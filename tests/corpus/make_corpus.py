"""Write the labelled corpus: short texts, and in each what a detector has to find.

    python tests/corpus/make_corpus.py

Keys have the prefix, alphabet and length that their issuer publishes and a random body; numbers
have check digits from `check_digits`; nobody has them. A value is written in pieces, so that no
line of the files is a key by itself. `tests/test_redaction_figures.py` reads the files.
"""

# ruff: noqa: E501, RUF001 (rows of a table; full-width and other characters are what is tested)
import base64
import json
import random
import string
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import check_digits as check

ALNUM = string.ascii_letters + string.digits
TOKEN = ALNUM + "_-"
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
BASE32 = string.ascii_uppercase + "234567"
BASE64 = ALNUM + "+/"
HEX = "0123456789abcdef"

Entry = dict[str, Any]


salt = ""
"""Another one gives other bodies and digits: a corpus that nothing was tuned on."""


def seeded(seed: object) -> random.Random:
    return random.Random(f"{salt}{seed}")


def body(chosen: random.Random, alphabet: str, length: int) -> str:
    """Random characters with a letter first and both kinds in them, as issuers' generators give."""
    while True:
        text = "".join(chosen.choice(alphabet) for _ in range(length))
        if text[0].isalnum() and text[-1].isalnum() and any(map(str.isdigit, text)):
            return text


def value(detector: str, text: str) -> Entry:
    """A value in pieces, cut inside whatever prefix it has."""
    cuts = [0, min(2, len(text)), min(5, len(text)), len(text)]
    pieces = [text[a:b] for a, b in pairwise(cuts) if text[a:b]]
    return {"is": detector, "pieces": pieces}


def entry(source: str, *parts: str | Entry) -> Entry:
    return {"source": source, "parts": [part for part in parts if part != ""]}


# --- keys of providers ----------------------------------------------------------------------

# Issuer, its documentation or the public rule set the shape is from, prefix, alphabet, length, suffix.
KEYS: list[tuple[str, list[tuple[str, str, int] | str]]] = [
    ("OpenAI: project keys", [("sk-proj-", TOKEN, 74), "T3BlbkFJ", ("", TOKEN, 74)]),
    ("OpenAI: service account keys", [("sk-svcacct-", TOKEN, 120)]),
    ("OpenAI: admin keys", [("sk-admin-", TOKEN, 100)]),
    ("OpenAI: user keys before 2024", [("sk-", ALNUM, 20), "T3BlbkFJ", ("", ALNUM, 20)]),
    ("DeepSeek: API keys", [("sk-", HEX, 32)]),
    ("Anthropic: API keys", [("sk-ant-api03-", TOKEN, 93), "AA"]),
    ("Anthropic: admin keys", [("sk-ant-admin01-", TOKEN, 93), "AA"]),
    ("OpenRouter: API keys", [("sk-or-v1-", HEX, 64)]),
    ("Google: API keys", [("AIza", TOKEN, 35)]),
    ("Google: OAuth access tokens", [("ya29.", TOKEN, 120)]),
    ("Google: OAuth client secrets", [("GOCSPX-", TOKEN, 28)]),
    ("Hugging Face: user tokens", [("hf_", string.ascii_letters + "0123456789", 34)]),
    ("Groq: API keys", [("gsk_", ALNUM, 52)]),
    ("xAI: API keys", [("xai-", ALNUM, 80)]),
    ("Perplexity: API keys", [("pplx-", ALNUM, 48)]),
    ("Replicate: API tokens", [("r8_", ALNUM, 37)]),
    ("Fireworks: API keys", [("fw_", ALNUM, 22)]),
    ("Together: API keys", [("tgp_v1_", TOKEN, 43)]),
    ("NVIDIA: API keys", [("nvapi-", TOKEN, 64)]),
    ("Cerebras: API keys", [("csk-", LOWER, 48)]),
    ("Tavily: API keys", [("tvly-dev-", ALNUM, 32)]),
    ("Pinecone: API keys", [("pcsk_", ALNUM, 6), "_", ("", ALNUM, 63)]),
    ("Jina: API keys", [("jina_", ALNUM, 60)]),
    ("Voyage: API keys", [("pa-", ALNUM, 43)]),
    ("Firecrawl: API keys", [("fc-", HEX, 32)]),
    ("ElevenLabs: API keys", [("sk_", HEX, 48)]),
    ("LlamaCloud: API keys", [("llx-", ALNUM, 48)]),
    ("RunPod: API keys", [("rpa_", UPPER, 44)]),
    ("E2B: API keys", [("e2b_", HEX, 40)]),
    ("Mem0: API keys", [("m0-", ALNUM, 40)]),
    ("Langfuse: secret keys", [("sk-lf-", HEX, 8), "-", ("", HEX, 4), "-4", ("", HEX, 3), "-a", ("", HEX, 3), "-", ("", HEX, 12)]),
    ("LangSmith: personal tokens", [("lsv2_pt_", HEX, 32), "_", ("", HEX, 10)]),
    ("LangSmith: service keys", [("lsv2_sk_", HEX, 32), "_", ("", HEX, 10)]),
    ("Sentry: user tokens", [("sntryu_", HEX, 64)]),
    ("Sentry: organisation tokens", [("sntrys_eyJpYXQiOjE3", BASE64, 80), "_", ("", BASE64, 43)]),
    ("Grafana: service account tokens", [("glsa_", ALNUM, 32), "_", ("", HEX, 8)]),
    ("Grafana Cloud: access policy tokens", [("glc_eyJvIjoi", BASE64, 60)]),
    ("New Relic: user keys", [("NRAK-", UPPER, 27)]),
    ("PostHog: personal keys", [("phx_", ALNUM, 43)]),
    ("Dynatrace: API tokens", [("dt0c01.", BASE32, 24), ".", ("", BASE32, 64)]),
    ("AWS: access key ids", [("AKIA", BASE32, 16)]),
    ("AWS: temporary key ids", [("ASIA", BASE32, 16)]),
    ("AWS Bedrock: API keys", [("ABSK", BASE64, 128)]),
    ("DigitalOcean: tokens", [("dop_v1_", HEX, 64)]),
    ("Azure: client secrets", [("", ALNUM, 3), "8Q~", ("", ALNUM, 34)]),
    ("Azure: storage account keys", [("", BASE64, 86), "=="]),
    ("Azure OpenAI: keys", [("", ALNUM, 52), "JQQJ99", ("", ALNUM, 8), "ACYeBjFXJ3w3AAABACOG", ("", ALNUM, 4)]),
    ("Azure Search: keys", [("", ALNUM, 42), "AzSe", ("", ALNUM, 6)]),
    ("Alibaba Cloud: access key ids", [("LTAI5t", ALNUM, 18)]),
    ("Tencent Cloud: secret ids", [("AKID", ALNUM, 32)]),
    ("Databricks: tokens", [("dapi", HEX, 32), "-2"]),
    ("Heroku: API keys", [("HRKU-AA", TOKEN, 58)]),
    ("Vault: service tokens", [("hvs.", TOKEN, 95)]),
    ("Vault: batch tokens", [("hvb.", TOKEN, 140)]),
    ("Supabase: access tokens", [("sbp_", HEX, 40)]),
    ("PlanetScale: tokens", [("pscale_tkn_", TOKEN, 43)]),
    ("Netlify: tokens", [("nfp_", ALNUM, 40)]),
    ("Vercel: tokens", [("vcp_", ALNUM, 56)]),
    ("Neon: API keys", [("napi_", LOWER, 64)]),
    ("Pulumi: access tokens", [("pul-", HEX, 40)]),
    ("Prefect: API keys", [("pnu_", LOWER, 36)]),
    ("Tailscale: auth keys", [("tskey-auth-", ALNUM, 17), "-", ("", ALNUM, 33)]),
    ("Doppler: personal tokens", [("dp.pt.", ALNUM, 43)]),
    ("Doppler: service tokens", [("dp.st.dev.", ALNUM, 43)]),
    ("Okta: API tokens", [("00", TOKEN, 40)]),
    ("OpenShift: user tokens", [("sha256~", TOKEN, 43)]),
    ("Cloudflare: origin CA keys", [("v1.0-", HEX, 24), "-", ("", HEX, 146)]),
    ("GitHub: classic tokens", [("ghp_", ALNUM, 36)]),
    ("GitHub: app tokens", [("ghs_", ALNUM, 36)]),
    ("GitHub: OAuth tokens", [("gho_", ALNUM, 36)]),
    ("GitHub: fine-grained tokens", [("github_pat_", ALNUM, 22), "_", ("", ALNUM, 59)]),
    ("GitLab: personal tokens", [("glpat-", TOKEN, 20)]),
    ("GitLab: runner tokens", [("glrt-", TOKEN, 20)]),
    ("Bitbucket: app passwords", [("ATBB", ALNUM, 32)]),
    ("Atlassian: API tokens", [("ATATT3xFfGF0", TOKEN, 180)]),
    ("npm: access tokens", [("npm_", ALNUM, 36)]),
    ("PyPI: API tokens", [("pypi-AgEIcHlwaS5vcmc", TOKEN, 150)]),
    ("RubyGems: API keys", [("rubygems_", HEX, 48)]),
    ("Docker Hub: access tokens", [("dckr_pat_", TOKEN, 27)]),
    ("Terraform Cloud: tokens", [("", ALNUM, 14), ".atlasv1.", ("", TOKEN, 67)]),
    ("Artifactory: API keys", [("AKCp", ALNUM, 69)]),
    ("SonarQube: user tokens", [("squ_", HEX, 40)]),
    ("Sourcegraph: access tokens", [("sgp_", HEX, 40)]),
    ("Buildkite: user tokens", [("bkua_", HEX, 40)]),
    ("CircleCI: personal tokens", [("CCIPAT_", ALNUM, 22), "_", ("", HEX, 40)]),
    ("Postman: API keys", [("PMAK-", HEX, 24), "-", ("", HEX, 34)]),
    ("Linear: API keys", [("lin_api_", ALNUM, 40)]),
    ("Notion: tokens", [("ntn_", ALNUM, 46)]),
    ("Figma: personal tokens", [("figd_", TOKEN, 40)]),
    ("Airtable: personal tokens", [("pat", ALNUM, 14), ".", ("", HEX, 64)]),
    ("Asana: personal tokens", [("2/", "123456789", 16), "/", ("", "123456789", 16), ":", ("", HEX, 32)]),
    ("ClickUp: personal tokens", [("pk_", "123456789", 8), "_", ("", UPPER, 32)]),
    ("Dropbox: short-lived tokens", [("sl.", TOKEN, 135)]),
    ("Typeform: personal tokens", [("tfp_", TOKEN, 59)]),
    ("Slack: bot tokens", [("xoxb-", "123456789", 12), "-", ("", "123456789", 13), "-", ("", ALNUM, 24)]),
    ("Slack: user tokens", [("xoxp-", "123456789", 12), "-", ("", "123456789", 12), "-", ("", "123456789", 12), "-", ("", HEX, 32)]),
    ("Slack: app tokens", [("xapp-1-A", UPPER, 10), "-", ("", "123456789", 13), "-", ("", HEX, 64)]),
    ("Telegram: bot tokens", [("", "123456789", 10), ":AA", ("", TOKEN, 33)]),
    ("Discord: bot tokens", [("MT", ALNUM, 24), ".G", ("", ALNUM, 5), ".", ("", ALNUM, 38)]),
    ("Stripe: live keys", [("sk_live_", ALNUM, 99)]),
    ("Stripe: restricted keys", [("rk_live_", ALNUM, 99)]),
    ("Stripe: webhook secrets", [("whsec_", ALNUM, 32)]),
    ("Square: access tokens", [("EAAA", TOKEN, 60)]),
    ("Shopify: admin tokens", [("shpat_", HEX, 32)]),
    ("Twilio: API keys", [("SK", HEX, 32)]),
    ("SendGrid: API keys", [("SG.", TOKEN, 22), ".", ("", TOKEN, 43)]),
    ("Mailgun: API keys", [("key-", HEX, 32)]),
    ("Mailchimp: API keys", [("", HEX, 32), "-us14"]),
    ("Brevo: API keys", [("xkeysib-", HEX, 64), "-", ("", ALNUM, 16)]),
    ("Resend: API keys", [("re_", ALNUM, 8), "_", ("", ALNUM, 24)]),
    ("HubSpot: private app tokens", [("pat-na1-", HEX, 8), "-", ("", HEX, 4), "-4", ("", HEX, 3), "-a", ("", HEX, 3), "-", ("", HEX, 12)]),
    ("Facebook: page tokens", [("EAAG", ALNUM, 160)]),
    ("Plaid: access tokens", [("access-sandbox-", HEX, 8), "-", ("", HEX, 4), "-4", ("", HEX, 3), "-a", ("", HEX, 3), "-", ("", HEX, 12)]),
    ("age: secret keys", [("AGE-SECRET-KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)]),
    ("EasyPost: API keys", [("EZAK", ALNUM, 54)]),
    ("Shippo: tokens", [("shippo_live_", HEX, 40)]),
    ("Adobe: client secrets", [("p8e-", TOKEN, 32)]),
    ("Browserbase: API keys", [("bb_live_", TOKEN, 27)]),
    ("Clojars: tokens", [("CLOJARS_", LOWER, 60)]),
    ("Contentful: personal tokens", [("CFPAT-", TOKEN, 43)]),
    ("Duffel: tokens", [("duffel_test_", TOKEN, 43)]),
    ("Flutterwave: secret keys", [("FLWSECK_TEST-", HEX, 32), "-X"]),
    ("Fly: tokens", [("fm2_", BASE64, 200)]),
    ("Harness: tokens", [("pat.", TOKEN, 22), ".", ("", HEX, 24), ".", ("", ALNUM, 20)]),
    ("Helicone: API keys", [("sk-helicone-", LOWER, 7), "-", ("", LOWER, 7), "-", ("", LOWER, 7), "-", ("", LOWER, 7)]),
    ("Infracost: API keys", [("ico-", ALNUM, 32)]),
    ("Mapbox: secret tokens", [("sk.eyJ1Ijoi", ALNUM, 70), ".", ("", TOKEN, 22)]),
    ("Modal: token ids", [("ak-", ALNUM, 22)]),
    ("Octopus Deploy: API keys", [("API-", UPPER, 26)]),
    ("1Password: secret keys", [("A3-", UPPER, 6), "-", ("", UPPER, 6), "-", ("", UPPER, 5), "-", ("", UPPER, 5), "-", ("", UPPER, 5), "-", ("", UPPER, 5)]),
    ("1Password: service account tokens", [("ops_eyJ", ALNUM, 300)]),
    ("ReadMe: API keys", [("rdme_", LOWER, 70)]),
    ("Weights & Biases: API keys", [("wandb_v1_", TOKEN, 77)]),
]  # fmt: skip

AROUND_KEYS = [
    ("", ""), ("the key is ", "."), ("用", "登录，谢谢"), ("キーは", "です"), ("المفتاح ", " هنا"),
    ("error: invalid credential '", "' (401)"), ("export A=", "\n"), ("🔑", "🔑"), ("curl -H x:", " https://a.b"),
    ('{"a": "', '"}'), (r"line\n", r"\nnext"), ("(", ")"), ("`", "`"), ("<", ">"),
]  # fmt: skip


def key(chosen: random.Random, parts: list[tuple[str, str, int] | str]) -> str:
    return "".join(
        part if isinstance(part, str) else part[0] + body(chosen, part[1], part[2])
        for part in parts
    )


def keys() -> Iterator[Entry]:
    for number, (source, parts) in enumerate(KEYS):
        for turn in range(2):
            chosen = seeded(f"{source} {turn}")
            before, after = AROUND_KEYS[(number + turn * 5) % len(AROUND_KEYS)]
            yield entry(source, before, value("api_key", key(chosen, parts)), after)
    yield entry(
        "Slack: incoming webhooks",
        "post to https://hooks.slack.com/services/",
        value("api_key", "T0" + body(seeded(1), UPPER, 8) + "/B0" + body(seeded(2), UPPER, 8) + "/" + body(seeded(3), ALNUM, 24)),
    )  # fmt: skip
    yield entry(
        "Discord: webhooks",
        "https://discord.com/api/webhooks/",
        value("api_key", "1" + body(seeded(4), "123456789", 17) + "/" + body(seeded(5), TOKEN, 68)),
    )  # fmt: skip

    yield entry(
        "Microsoft Teams: incoming webhooks",
        "https://acme.webhook.office.com/webhookb2/",
        value("api_key", body(seeded(6), HEX, 36) + "@" + body(seeded(7), HEX, 36) + "/IncomingWebhook/" + body(seeded(8), HEX, 32)),
    )  # fmt: skip
    yield entry(
        "AWS: secret access keys",
        value("api_key", "AKIA" + body(seeded(9), BASE32, 16)),
        ",",
        value("api_key", body(seeded(10), ALNUM, 40)),
    )


# --- credentials ----------------------------------------------------------------------------


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def jwt(chosen: random.Random) -> str:  # RFC 7519
    header = encoded('{"alg":"HS256","typ":"JWT"}')
    return f"{header}.{encoded(json.dumps({'sub': body(chosen, ALNUM, 8), 'iat': 1}))}.{body(chosen, TOKEN, 43)}"


def pem(chosen: random.Random, kind: str, line_end: str) -> str:  # RFC 7468
    lines = [body(chosen, BASE64, 64) for _ in range(3)] + [body(chosen, BASE64, 20) + "=="]
    return line_end.join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])


def credentials() -> Iterator[Entry]:
    r = seeded("credentials")
    for before, after in [
        ("", ""),
        ("token=", ""),
        ("Cookie value ", " expired"),
        ("令牌", "。"),
        ('"', '"'),
        ("(", ")"),
    ]:
        yield entry("RFC 7519", before, value("jwt", jwt(r)), after)
    for kind in [
        "PRIVATE KEY",
        "RSA PRIVATE KEY",
        "EC PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
    ]:
        yield entry("RFC 7468", "the key:\n", value("private_key", pem(r, kind, "\n")), "\nend")
        yield entry(
            "RFC 7468, as JSON text in a log line",
            'loaded {"k": "',
            value("private_key", pem(r, kind, r"\n")),
            '"} done',
        )
        yield entry(
            "RFC 7468, JSON text inside JSON text",
            "x ",
            value("private_key", pem(r, kind, r"\\n")),
            " y",
        )
    yield entry("OpenPGP armour", value("private_key", pem(r, "PGP PRIVATE KEY BLOCK", "\n")))
    yield entry(
        "Google: service account keys", '{"type": "service_account", "private_key": "',
        value("private_key secret", pem(r, "PRIVATE KEY", r"\n") + r"\n"), '", "client_id": "1"}',
    )  # fmt: skip
    for scheme, token in [
        ("Bearer", body(r, ALNUM, 40)),
        ("Bearer", body(r, HEX, 40)),
        ("Token", body(r, HEX, 40)),
        ("Basic", base64.b64encode(b"bob:correct-horse").decode()),
        ("ApiKey", body(r, ALNUM, 30)),
    ]:
        yield entry(
            "RFC 9110 11.6.2", "Authorization: ", value("authorization secret", f"{scheme} {token}")
        )
        yield entry(
            "RFC 9110, headers as Python prints them",
            "{'Authorization': '",
            value("authorization secret", f"{scheme} {token}"),
            "', 'Accept': '*/*'}",
        )
    yield entry(
        "RFC 6750", "sent with bearer ", value("authorization", body(r, ALNUM, 40)), " as usual"
    )
    yield entry(
        "RFC 7617",
        "-H 'x: Basic ",
        value("authorization", base64.b64encode(b"alice:opensesame").decode()),
        "'",
    )
    for name in ["session", "SID", "JSESSIONID", "csrftoken", "connect.sid"]:
        yield entry(
            "RFC 6265 4.2", "Cookie: ", value("cookie", f"{name}={body(r, ALNUM, 32)}; lang=en")
        )
        yield entry(
            "RFC 6265 4.1",
            "Set-Cookie: ",
            value("cookie", f"{name}={body(r, HEX, 32)}; Path=/; HttpOnly"),
        )
    yield entry(
        "Python requests",
        "requests.get(u, cookies={",
        value("cookie", f"'sid': '{body(r, HEX, 24)}'"),
        "})",
    )
    for url, password in [
        ("postgresql://bob:{}@db.example.com:5432/app", "Hunter-2x"), ("mysql://root:{}@127.0.0.1/x", "s3cr3t!"),
        ("mongodb+srv://app:{}@c0.example.net/db", body(r, ALNUM, 16)), ("redis://:{}@cache:6379/0", "pa55word"),
        ("amqp://guest:{}@mq:5672/%2f", "gu3st.pass"), ("https://u:{}@git.example.com/r.git", body(r, ALNUM, 20)),
        ("sftp://u:{}@files.example.org/in", "p%40ss"), ("jdbc:postgresql://u:{}@h/db", "w0rdy"), ("clickhouse://d:{}@ch:9000", "c1ick"),
        ("jdbc:oracle:thin:scott/{}@dbhost:1521:orcl", "t1ger"), ("bob:{}@tcp(db:3306)/app", "go-mysql1"), ("smtps://m:{}@mail.example.org:465", "m4il"),
    ]:  # fmt: skip
        before, after = url.split("{}")
        yield entry(
            "RFC 3986 3.2.1 and drivers' documentation",
            f"connecting to {before}",
            value("url_password", password),
            after,
        )
    for before, secret, after in [
        ("Server=db;User Id=sa;Password=", "Str0ng#Pw", ";Encrypt=yes"), ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=", body(r, BASE64, 40), ";Suffix=b"),
        ("Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey=", body(r, BASE64, 43), ""), ("host=db user=bob password=", "hunter2", " dbname=x"),
        ("Driver={ODBC};Uid=sa;Pwd=", "abc!23", ";"), ("OPENAI_API_KEY=", "not-a-shape-known", "\n"), ("export DB_PASSWORD='", "correct horse", "'"),
        ("client_secret: ", body(r, ALNUM, 24), "\n"), ("x-api-key: ", body(r, HEX, 32), ""), ('x {"access_token": "', body(r, TOKEN, 40), '", "n": 1}'),
        ("my password is ", "hunter2", "!"), ("密码：", "abc@1234", "，谢谢"), ("数据库密码是", "Qwe123!x", "。"), ("パスワード：", "himitsu99", ""), ("비밀번호: ", "gildong77", "!"),
        ("пароль: ", "Parol123", ""), ("--token ", body(r, ALNUM, 24), " run"), ("<password>", "hunter2", "</password>"), ("https://a.example/v1?api_key=", body(r, ALNUM, 24), "&p=2"),
        ("验证码：", "482913", ""), ("otp=", "482913", " ok"), ("api_key = \"", "abc def", "\""),
    ]:  # fmt: skip
        yield entry("names of secrets in text", before, value("secret", secret), after)
    yield entry(
        "Azure: shared access signatures",
        "https://x.blob.core.windows.net/c/f?sv=2024&sig=",
        value("url_password", quote(body(r, BASE64, 43) + "=", safe="")),
    )
    yield entry(
        "AWS: presigned URLs",
        "https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=",
        value("url_password", body(r, HEX, 64)),
    )
    yield entry("curl(1)", "curl -u bob:", value("secret", "hunter2"), " https://example.com")


# --- numbers of people and things -----------------------------------------------------------

NATIONAL: list[tuple[str, check.Numbers, list[str]]] = [
    ("GB 11643", check.cn_resident_id, ["身份证号{}，请核对", "ID {}", "{}"]),
    ("US SSA", check.us_ssn, ["SSN {}", "{}", "ssn: {}"]),
    ("Korea RRN", check.kr_rrn, ["주민등록번호는 {}입니다", "{}"]),
    ("Brazil CPF", check.dotted_cpf, ["meu CPF é {}.", "{}"]),
    ("Brazil CPF", check.cpf, ["CPF {}", "cpf: {}"]),
    ("Chile RUT", check.cl_rut, ["RUT {}", "{}"]),
    ("Switzerland AHV", check.ch_ahv, ["AHV-Nr. {}", "{}"]),
    ("Italy codice fiscale", check.it_codice_fiscale, ["codice fiscale {}", "{}"]),
    ("Mexico CURP", check.mx_curp, ["CURP: {}", "{}"]),
    ("France NIR", check.fr_nir, ["NIR {}", "{}"]),
    ("Spain DNI", check.es_dni, ["DNI {}", "{}"]),
    ("Spain NIE", check.es_nie, ["NIE {}", "{}"]),
    ("Finland hetu", check.fi_hetu, ["hetu {}", "{}"]),
    ("Norway", check.no_fodselsnummer, ["fødselsnummer {}", "{}"]),
    ("Belgium", check.be_nn, ["rijksregisternummer {}", "{}"]),
    ("Argentina CUIT", check.ar_cuit, ["CUIT {}", "{}"]),
    ("Pakistan CNIC", check.pk_cnic, ["CNIC {}", "{}"]),
    ("Thailand", check.dashed_th_pin, ["เลข {}", "{}"]),
    ("Thailand", check.th_pin, ["เลขประจำตัวประชาชน {}"]),
    ("Dominican Republic", check.do_cedula, ["cédula {}", "{}"]),
    ("Colombia NIT", check.co_nit, ["NIT {}", "{}"]),
    ("Portugal", check.pt_cc, ["cartão de cidadão {}", "{}"]),
    ("India Aadhaar", check.aadhaar, ["Aadhaar {}", "आधार {}"]),
    ("India PAN", check.in_pan, ["PAN: {}", "PAN {}"]),
    ("Poland PESEL", check.pesel, ["PESEL {}", "pesel: {}"]),
    ("Germany IdNr", check.de_idnr, ["Steuer-ID {}", "IdNr. {}"]),
    ("Netherlands BSN", check.nl_bsn, ["BSN {}", "burgerservicenummer {}"]),
    ("Canada SIN", check.ca_sin, ["SIN {}", "Social Insurance Number: {}"]),
    ("Australia TFN", check.au_tfn, ["TFN {}", "tax file number {}"]),
    ("New Zealand IRD", check.nz_ird, ["IRD {}", "IRD number {}"]),
    ("England NHS", check.gb_nhs, ["NHS number {}", "NHS no. {}"]),
    ("Ireland PPS", check.ie_pps, ["PPS {}", "PPSN: {}"]),
    ("Sweden", check.personnummer, ["personnummer {}", "Personnummer: {}"]),
    ("Iceland", check.kennitala, ["kennitala {}"]),
    ("Denmark CPR", check.dk_cpr, ["CPR {}", "CPR-nummer {}"]),
    ("Estonia", check.baltic, ["isikukood {}"]),
    ("Lithuania", check.baltic, ["asmens kodas {}"]),
    ("Czechia", check.cz_rc, ["rodné číslo {}"]),
    ("Romania CNP", check.ro_cnp, ["CNP {}", "CNP: {}"]),
    ("Bulgaria EGN", check.bg_egn, ["ЕГН {}", "EGN {}"]),
    ("Croatia OIB", check.hr_oib, ["OIB {}", "OIB: {}"]),
    ("Slovenia EMŠO", check.si_emso, ["EMŠO {}"]),
    ("Greece AMKA", check.gr_amka, ["ΑΜΚΑ {}", "AMKA: {}"]),
    ("Ukraine RNTRC", check.ua_rntrc, ["РНОКПП {}"]),
    ("Russia INN", check.ru_inn, ["ИНН {}", "ИНН: {}"]),
    ("Ecuador", check.ec_ci, ["cédula {}"]),
    ("Turkey", check.tckimlik, ["TC kimlik {}", "T.C. Kimlik No: {}"]),
    ("Israel", check.il_id, ["תעודת זהות {}", "teudat zehut {}"]),
    ("South Africa", check.za_id, ["SA ID {}", "South African ID number {}"]),
    ("Japan My Number", check.jp_my_number, ["マイナンバーは{}です", "個人番号：{}"]),
    ("Malaysia MyKad", check.my_nric, ["MyKad {}", "NRIC: {}"]),
    ("Indonesia NIK", check.id_nik, ["NIK {}", "NIK: {}"]),
]  # fmt: skip

# Issuer range, digits, groups. ISO/IEC 7812 and the networks' listings.
CARDS = [
    ("Visa", "4", 16, (4, 4, 4, 4)), ("Mastercard", "53", 16, (4, 4, 4, 4)), ("Mastercard 2-series", "2412", 16, (4, 4, 4, 4)),
    ("American Express", "37", 15, (4, 6, 5)), ("Discover", "6011", 16, (4, 4, 4, 4)), ("Diners Club", "36", 14, (4, 6, 4)),
    ("JCB", "3530", 16, (4, 4, 4, 4)), ("UnionPay", "62", 16, (4, 4, 4, 4)), ("UnionPay", "62", 19, (6, 13)), ("Mir", "2201", 16, (4, 4, 4, 4)),
]  # fmt: skip
AROUND_CARDS = [
    "{}",
    "pay with {}.",
    "卡号{}，有效期12/28",
    "カード番号は{}です",
    "بطاقة {} منتهية",
    "card={}&cvv=",
    '"{}"',
]

# Country, lengths of its parts (n digits, a capitals, c both): the SWIFT registry.
IBANS = [
    ("DE", "n18"), ("GB", "a4n14"), ("FR", "n10c11n2"), ("NL", "a4n10"), ("ES", "n20"), ("IT", "a1n10c12"), ("CH", "n5c12"),
    ("AT", "n16"), ("BE", "n12"), ("SE", "n20"), ("NO", "n11"), ("DK", "n14"), ("FI", "n14"), ("PL", "n24"), ("PT", "n21"),
    ("IE", "a4n14"), ("SA", "n2c18"), ("AE", "n19"), ("TR", "n6c16"), ("BR", "n23a1c1"),
]  # fmt: skip


def bban(r: random.Random, shape: str) -> str:
    alphabets = {"n": string.digits, "a": string.ascii_uppercase, "c": UPPER}
    text, at = "", 0
    while at < len(shape):
        end = at + 1
        while end < len(shape) and shape[end].isdigit():
            end += 1
        text += "".join(r.choice(alphabets[shape[at]]) for _ in range(int(shape[at + 1 : end])))
        at = end
    return text


def grouped(text: str, sizes: tuple[int, ...], separator: str) -> str:
    parts, at = [], 0
    for size in sizes:
        parts.append(text[at : at + size])
        at += size
    return separator.join(parts)


def identifiers() -> Iterator[Entry]:
    for source, make, texts in NATIONAL:
        for turn, text in enumerate(texts):
            before, after = text.split("{}")
            number = make(seeded(f"{source} {turn}"))
            yield entry(source, before, value("national_id", number), after)
    for number, (source, prefix, length, groups) in enumerate(CARDS):
        for turn, separator in enumerate(["", " ", "-"]):
            r = seeded(f"{source} {length} {turn}")
            digits = check.with_luhn(prefix + check.digits(r, length - 1 - len(prefix)))
            before, after = AROUND_CARDS[(number + turn) % len(AROUND_CARDS)].split("{}")
            yield entry(
                f"ISO/IEC 7812, {source}",
                before,
                value("card", grouped(digits, groups, separator)),
                after,
            )
    for number, (country, shape) in enumerate(IBANS):
        r = seeded(country)
        text = check.iban(country, bban(r, shape))
        if number % 2:
            text = " ".join(text[at : at + 4] for at in range(0, len(text), 4))
        before, after = [("", ""), ("IBAN: ", "."), ("请汇款到", "，谢谢"), ("口座は", "です")][
            number % 4
        ]
        yield entry(f"ISO 13616, {country}", before, value("iban", text), after)


# --- how to reach somebody ------------------------------------------------------------------

# Numbers that the regulators keep for fiction, or that no plan gives to a person's line.
PHONES = [
    ("NANPA 555", "call {} now", "+1 415-555-0132"), ("NANPA 555", "{}", "(212) 555-0187"), ("NANPA 555", "or {}.", "303-555-0143"),
    ("NANPA 555", "tel:{}", "+14155550199"), ("Ofcom drama numbers", "ring {}", "+44 20 7946 0321"), ("Ofcom drama numbers", "{}", "07700 900461"),
    ("Ofcom drama numbers", "mobile {}", "07700900982"), ("China MIIT", "电话{}，请联系", "13800138000"), ("China MIIT", "{}", "138-0013-8000"),
    ("China MIIT", "我的手机号是{}谢谢", "+86 138 0013 8000"), ("China MIIT", "座机：{}", "010-6552 9988"), ("Japan MIC", "電話は{}です", "090-1234-5678"),
    ("Japan MIC", "{}", "03-1234-5678"), ("Korea", "전화 {}", "010-1234-5678"), ("France ARCEP", "au {}", "06 12 34 56 78"),
    ("France ARCEP", "{}", "+33 1 99 00 12 34"), ("Germany BNetzA", "Tel. {}", "030 23125 012"), ("Germany BNetzA", "{}", "+49 30 23125 345"),
    ("Australia ACMA", "{}", "0491 570 156"), ("Australia ACMA", "on {}", "+61 491 570 110"), ("Brazil", "fone {}", "(11) 98765-4321"),
    ("India", "{} par call karo", "+91 98765 43210"), ("Spain", "al {}", "+34 612 34 56 78"), ("Mexico", "al {}", "+52 55 1234 5678"),
    ("UAE", "رقم الهاتف {}", "+971 50 123 4567"), ("Egypt", "اتصل على {} الآن", "+20 100 123 4567"), ("Israel", "טלפון {}", "+972 50-123-4567"),
    ("Russia", "звоните {}", "+7 912 345-67-89"), ("keyword", "phone: {}", "4155550132"), ("keyword", "WhatsApp {}", "0501234567"), ("Sweden PTS", "{}", "+46 70 174 06 05"),
    ("Italy", "chiama {}", "+39 312 345 6789"), ("Thailand", "โทร {}", "+66 81 234 5678"),
]  # fmt: skip

EMAILS = [
    ("RFC 5321", "mail {} please", "bob@example.com"), ("RFC 5321", "{}", "first.last@mail.example.co.uk"), ("RFC 5233 sub-address", "to {}.", "alice+news@example.org"),
    ("RFC 5321", "<{}>", "o'neil@example.ie"), ("RFC 5321", "请联系{}谢谢", "li.wei@example.cn"), ("RFC 5321", "メールは{}です", "sato_k@example.co.jp"),
    ("RFC 5321", "البريد {} هنا", "omar@example.ae"), ("RFC 5321", "mailto:{}?subject=x", "user@sub.example.museum"), ("RFC 6531", "an {}!", "jürgen@müller-example.de"),
    ("RFC 6531", "{}", "用户@例子.公司"), ("RFC 6531", "пишите: {}", "иван@пример.рф"), ("RFC 6531", "{} को लिखें", "संपर्क@उदाहरण.भारत"),
    ("RFC 5890", "{}", "info@xn--fsqu00a.xn--55qx5d"), ("RFC 5890", "发到bob@例子.公司谢谢".replace("bob@例子.公司", "{}"), "bob@例子.公司"), ("RFC 5321 quoted string", "to {} ok", '"john doe"@example.com'),
    ("RFC 5321", "name={}&x=1", "a.b-c@x-y.example.com"), ("RFC 5321", "{};", "1234567890@example.net"), ("RFC 5321", "“{}”", "user%list@example.org"), ("RFC 5321", "author: Bob <{}>, 2026", "bob.builder@example.dev"),
    ("RFC 5321", "email={}", "X_Y-Z@EXAMPLE.COM"),
]  # fmt: skip

# RFC 5737 and 3849: addresses for documentation, which stand for public ones.
ADDRESSES = [
    ("request from {} denied", "203.0.113.195"), ("{}", "198.51.100.23"), ("connect to {}:5432 failed", "203.0.113.7"), ("client_ip={},", "192.0.2.146"),
    ("来自{}的请求", "198.51.100.77"), ("X-Forwarded-For: {}", "203.0.113.60"), ("http://{}/admin", "198.51.100.200"), ("block {}/24", "203.0.113.0"),
    ("host/{}:443 refused", "192.0.2.10"), ("[{}]", "203.0.113.99"), ("{}", "2001:db8:85a3::8a2e:370:7334"), ("[{}]:443", "2001:db8::1"), ("from {} port 22", "2001:db8:0:0:1:0:0:1"),
    ("アドレスは{}です", "203.0.113.44"), ("عنوان {} محظور", "198.51.100.9"), ("{}: unreachable", "2001:db8::dead:beef"), ("ip 8.8.4.4".replace("8.8.4.4", "{}"), "8.8.4.4"), ("::ffff:{}", "203.0.113.8"),
    ("peer {}%eth0", "2001:db8::c0ff:ee"), ("ping {}.", "192.0.2.1"),
]  # fmt: skip


def contacts() -> Iterator[Entry]:
    for detector, rows in [("phone", PHONES), ("email", EMAILS)]:
        for source, text, contact in rows:
            before, after = text.split("{}")
            yield entry(source, before, value(detector, contact), after)
    for text, address in ADDRESSES:
        before, after = text.split("{}")
        yield entry("RFC 5737, 3849, 4291", before, value("ip", address), after)


# --- secrets without a shape ----------------------------------------------------------------

NEAR_WORDS = [
    ("our Cohere key is ", ALNUM, 40, "."), ("use the Mistral key ", ALNUM, 32, " for that"), ("Datadog app key ", HEX, 40, ""), ("the token you gave me, ", ALNUM, 24, ", expired"),
    ("log in with secret ", TOKEN, 32, " please"), ("credentials for prod: ", ALNUM, 28, ""), ("密钥就是", ALNUM, 32, "，别外传"), ("令牌 ", ALNUM, 24, ""), ("トークンは", ALNUM, 32, "です"),
    ("ключ ", ALNUM, 32, ""), ("the AssemblyAI key (", HEX, 32, ")"), ("Authenticate with key '", BASE64, 44, "'"), ("api key for Deepgram is ", HEX, 40, ""), ("Weather API key → ", HEX, 32, ""),
    ("토큰은 ", ALNUM, 32, "입니다"), ("secret was ", BASE64, 40, ""), ("key material ", BASE64, 43, ""), ("I rotated the key, it is now ", ALNUM, 36, "!"),
]  # fmt: skip
ALONE = [
    ("send ", ALNUM, 40, " over"), ("", ALNUM, 48, ""), ("x=", ALNUM, 44, ";"), ("value ", TOKEN, 64, ""), ("[", ALNUM, 40, "]"), ("然后用", ALNUM, 40, "试试"),
    ("he wrote ", BASE64, 56, "."), ("acme_", ALNUM, 40, ""), ("got '", ALNUM, 32, "'"), ("", BASE64, 43, "="), ("echo ", ALNUM, 60, " | sh"), ("set it to ", TOKEN, 43, " now"),
]  # fmt: skip


def secrets_without_shape() -> Iterator[Entry]:
    for number, (before, alphabet, length, after) in enumerate(NEAR_WORDS + ALONE):
        for turn in range(2):
            text = body(seeded(f"entropy {number} {turn}"), alphabet, length)
            kept = before.endswith("_") * len(
                before
            )  # a prefix that nobody published is part of it
            text, before_ = (before[-kept:] + text, before[:-kept]) if kept else (text, before)
            yield entry("random text", before_, value("entropy secret", text), after)


# --- other spellings ------------------------------------------------------------------------

FULL_WIDTH = {ord(c): ord(c) + 0xFEE0 for c in map(chr, range(0x21, 0x7F))}
ARABIC = {ord(str(d)): 0x0660 + d for d in range(10)}
PERSIAN = {ord(str(d)): 0x06F0 + d for d in range(10)}
DEVANAGARI = {ord(str(d)): 0x0966 + d for d in range(10)}


def spellings() -> Iterator[Entry]:
    r = seeded("spellings")
    card = check.with_luhn("4" + check.digits(r, 14))
    spaced = grouped(card, (4, 4, 4, 4), " ")
    for source, text in [
        ("full-width", card.translate(FULL_WIDTH)), ("Arabic-Indic", card.translate(ARABIC)), ("Persian", card.translate(PERSIAN)), ("Devanagari", spaced.translate(DEVANAGARI)),
        ("no-break spaces", spaced.replace(" ", "\u00a0")), ("non-breaking hyphens", spaced.replace(" ", "\u2011")), ("zero-width spaces", spaced.replace(" ", "\u200b")),
        ("zero-width joiners", "\u200d".join(card)), ("soft hyphens", spaced.replace(" ", "\u00ad")), ("byte order mark", card[:8] + "\ufeff" + card[8:]),
    ]:  # fmt: skip
        for before, after in [("卡号", "。"), ("رقم ", " هنا")]:
            yield entry(f"Unicode: {source}", before, value("card", text), after)
    resident = check.cn_resident_id(r)
    yield entry(
        "Unicode: full-width", "身份证", value("national_id", resident.translate(FULL_WIDTH)), "。"
    )
    yield entry(
        "Unicode: Arabic-Indic", "هاتف ", value("phone", "+971501234567".translate(ARABIC)), " شكرا"
    )
    yield entry(
        "Unicode: full-width", "手机", value("phone", "13800138000".translate(FULL_WIDTH)), "号"
    )
    yield entry(
        "Unicode: full-width",
        "邮箱：",
        value("email", "bob@example.com".translate(FULL_WIDTH)),
        "。",
    )
    yield entry("Unicode: zero-width space", "to ", value("email", "bob@exam\u200bple.com"), " ok")
    yield entry(
        "Unicode: Arabic-Indic", "IP ", value("ip", "203.0.113.7".translate(ARABIC)), " محظور"
    )
    known = [("OpenAI", key(r, [("sk-proj-", TOKEN, 48)])), ("GitHub", key(r, [("ghp_", ALNUM, 36)])), ("Anthropic", key(r, [("sk-ant-api03-", TOKEN, 93), "AA"])), ("AWS", key(r, [("AKIA", BASE32, 16)])), ("Stripe", key(r, [("sk_live_", ALNUM, 24)]))]  # fmt: skip
    for source, text in known:
        base = base64.b64encode(text.encode()).decode()
        for before, wrapped, after in [
            ("", base, ""), ("data ", base.rstrip("="), " end"), ("用", base, "登录"), ("x:", base64.b64encode(f"user1:{text}".encode()).decode(), ""),
            ("payload ", encoded(json.dumps({"k": text, "n": "值"}, ensure_ascii=True)), ""), ("b64 ", base64.b64encode(base.encode()).decode(), ""), ("q=", quote(base, safe=""), "&z=1"),
        ]:  # fmt: skip
            yield entry(f"RFC 4648, {source}", before, value("api_key", wrapped), after)
        every = "".join(f"%{ord(char):02X}" for char in text)
        marks = "".join(char if char.isalnum() else f"%{ord(char):02x}" for char in text)
        for before, wrapped, after in [("?k=", every, "&a=b"), ("?k=", marks, "")]:
            yield entry(f"RFC 3986 2.1, {source}", before, value("api_key", wrapped), after)
        nested = json.dumps(json.dumps(json.dumps({"a": [text]})))
        before, after = nested.split(text)
        yield entry(
            f"RFC 8259, JSON in JSON in JSON, {source}",
            f"tool said {before}",
            value("api_key", text),
            after,
        )
        escaped = "".join(f"\\u{ord(char):04x}" for char in text[:4]) + text[4:]
        yield entry(f"RFC 8259 7, {source}", 'body {"a": "', value("api_key", escaped), '"}!')
    for source, text in [
        ("RFC 3986", "bob%40example.com"),
        ("RFC 3986", "alice%2Bnews%40example.org"),
        ("RFC 3986, twice", "bob%2540example.com"),
    ]:
        yield entry(source, "https://x.example/?m=", value("email", text), "&n=1")
    yield entry("RFC 3986", "https://x.example/?p=", value("phone", "%2B14155550132"), "&n=1")
    yield entry(
        "RFC 3986", "https://x.example/?c=", value("card", spaced.replace(" ", "%20")), "&n=1"
    )


# --- what only looks like it ----------------------------------------------------------------


def hard_negatives() -> Iterator[Entry]:
    r = seeded("negatives")
    for group, texts in NEGATIVES.items():
        for text in texts:
            yield entry(group, text)
    for _ in range(10):
        h = "".join(r.choice(HEX) for _ in range(64))
        yield entry("UUID", f"run {h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:32]} done")
        yield entry("git commit", f"commit {h[:40]}")
        yield entry("SHA-256", f"sha256:{h}")
        yield entry("MD5", f'ETag: "{h[:32]}"')
        yield entry("W3C trace context", f"traceparent: 00-{h[:32]}-{h[32:48]}-01")
        yield entry("order number", f"订单号{r.randint(10**10, 10**11 - 1)}已发货")
        yield entry("order number", f"Order #{r.randint(10**9, 10**10 - 1)} shipped")
        yield entry(
            "nanoseconds",
            f"start={r.randint(1_700_000_000, 1_800_000_000)}{r.randint(10**8, 10**9 - 1)}",
        )
        number = check.digits(r, 15, "45")
        wrong = str((int(check.luhn_digit(number)) + 1 + r.randint(0, 8)) % 10)
        wrong = wrong if wrong != check.luhn_digit(number) else str((int(wrong) + 1) % 10)
        yield entry("card with a wrong check digit", f"ref {number}{wrong}")
        yield entry("tool call id", f'"id": "call_{body(r, ALNUM, 24)}"')
        yield entry("tool call id", f"toolu_01{body(r, ALNUM, 22)} returned")
        yield entry("completion id", f"chatcmpl-{body(r, ALNUM, 29)}")
        yield entry(
            "ULID",
            f"01{''.join(r.choice('0123456789ABCDEFGHJKMNPQRSTVWXYZ') for _ in range(24))} stored",
        )
        yield entry("subresource integrity", f"sha384-{body(r, BASE64, 64)}")
        yield entry("image", f"data:image/png;base64,iVBORw0KGgo{body(r, BASE64, 120)}")
        yield entry(
            "document URL", f"https://docs.example.com/document/d/{body(r, ALNUM, 44)}/edit"
        )


NEGATIVES = {
    "version": [
        "version 1.2.3.4", "v10.0.19041.1", "Chrome/120.0.0.0 Safari/537.36", "upgrade to 2.31.0.1 first", "numpy==1.26.4.1", "see section 4.2.1.7", "OID 1.3.6.1.4.1.311",
        "langchain-core 1.8.3, langgraph 1.2.24", "Python 3.11.7 (main, Dec  5 2023)", "固件版本 2.10.33.7", "AssemblyVersion=4.0.0.0", "firmware: 12.7.33.1", "node v20.11.1", "glibc 2.39-0ubuntu8.4",
    ],
    "private or special address": [
        "192.168.0.17:8080", "10.0.0.1", "127.0.0.1:5432 refused", "172.16.4.9", "0.0.0.0:4317", "255.255.255.0", "169.254.169.254", "fe80::1ff:fe23:4567:890a", "::1", "fd12:3456:789a::1", "100.64.0.3", "224.0.0.251", "localhost",
    ],
    "time": [
        "12:34:56", "2026-11-30T12:34:56.789Z", "2026:11:30 12:34:56", "00:1A:2B:3C:4D:5E", "01-23-45-67-89-ab", "duration 01:02:03.456", "1732924800", "1732924800123", "30/11/2026 12:00", "Mon, 30 Nov 2026 12:34:56 +0800", "20261130123456",
    ],
    "code": [
        "std::vector<int>::iterator", "a::b::c", "face::dead", "x = y[1:2:3]", "password = get_password()", "api_key=os.environ['KEY']", "def f(password: str, token: str | None): ...", "token = tokens[0]", "Authorization: Bearer <token>", "api_key: {{ api_key }}",
        "https://user:${PASSWORD}@host/", "lodash@4.17.21", "logo@2x.png", "@app.route('/')", "git@github.com:org/repo.git", "q @ k.transpose(-2, -1)", "for i in range(0, 4111111): pass", "0xdeadbeefcafebabe", "getUserAccountByIdAndNameV2ForTenant", "test_that_a_very_long_name_of_a_test_2_is_fine",
        "RunnableSequence|ChatPromptTemplate|StrOutputParser2", "MAX_TOKENS_PER_MINUTE_2024_LIMIT", "cookies = {}", "os.path.join(a, b)", "SELECT id FROM t WHERE id = 4155552671", "const cookie = parse(header)", "Cache-Control: max-age=31536000", "utf8_general_ci", "sk-estimator-doc-link-hover", "task-force-of-the-quarter-2024-results",
        "%20and%20more%2C%20really", "a%2Fb%2Fc", "Zm9vYmFyIGJhciBmb28gYmF6IHF1eA==", "eyJpZCI6MTIzLCJwYWdlIjo0fQ==", "VGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcw", r"C:\new\table\users\readme", r"\u4f60\u597d", r"first\nsecond\tthird",
    ],
    "ISBN and EAN": ["ISBN 978-3-16-148410-0", "ISBN 0-306-40615-2", "9783161484100", "EAN 4006381333931", "ISSN 2049-3630", "UPC 036000291452", "DOI 10.1000/182", "arXiv:2302.13971v1", "PMID 31452104"],
    "coordinate": ["40.712776, -74.005974", "52°31′12″N 13°24′18″E", "+40.7128-074.0060/", "POINT(13.404954 52.520008)", "geo:37.786971,-122.399677", "31.2304,121.4737", "lat=48.85837&lon=2.294481"],
    "number": [
        "pi is 3.14159265358979323846", "1,000,000,000.00 USD", "¥12,345,678.90", "range 100-200-3000", "0123456789", "page 12 of 4155552671", "tracking no 1Z999AA10123456784", "invoice no. 1234567890123456", "SKU 8901234567", "ticket 20261130-0042", "score 0.4155552671", "1e-10", "-273.15", "64 KiB = 65536",
        "room 101-202-303", "2026-11-30-0001", "PO 4500012345", "account no. 12345678", "seed 1234567890", "n=138123456789", "Nr. 4711-0815", "2.4111111111111111", "3/4/2026 5-6-7", "ratio 16:9:4",
    ],
    "words about secrets": [
        "password must be at least 8 characters", "the secret of success", "reset your password", "max_tokens=1024", "input_tokens: 12", "token: the smallest unit of text", "cookie recipe: flour and 2 eggs", "Bearer of bad news", "basic authentication", "the API key is missing", "key takeaways from 2026-11-30 meeting",
        "密码错误，请重试", "请重置密码", "パスワードを忘れた場合", "the primary key of table orders_2026_archive", "token-bucket-rate-limiter-v2", "foreign key fk_orders_customers_2024", "secret-santa-party-planning-2026", "api key rotation policy v2", "keyboard-shortcut-ctrl-shift-4", "a key insight: attention-is-all-you-need-2017",
        "next_page_token=CAUQAA", '"total_tokens": 1024', "tokenizer: cl100k_base", "auth flow for oauth2-proxy-v7-upgrade", "key: value", "the token count went from 4096 to 8192", "partition key 2026-11-30-eu-central-1", "his password manager is 1Password 8",
    ],
    "model name": ["gpt-4o-mini-2024-07-18", "claude-3-5-sonnet-20241022", "anthropic.claude-3-5-sonnet-20241022-v2:0", "meta-llama/Llama-3.1-70B-Instruct", "text-embedding-3-large", "mistral-large-2411", "gemini-2.0-flash-exp-0827", "Qwen/Qwen2.5-72B-Instruct-AWQ", "deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "ft:gpt-4o-mini-2024-07-18:acme::AbC12dEf", "token limit of gpt-4o-2024-08-06-extended is 128000"],
    "provider id": ["req_011CQ8aXyZbKtWmQpLhRsTuv", "msg_01XFDUDYJgAACzvnptvVoYEL", "run-4d1c8a2e-0f6b-4c11-9d0e-0f6b2f5a3c21-0", "fp_44709d6fcb", "arn:aws:iam::123456789012:role/app", "ami-0abcdef1234567890", "i-0abcd1234efgh5678", "pk-lf-6fd1a1b2-7a64-4c11-9d0e-0f6b2f5a3c21", "thread_abc123DEF456ghi789JKL012", "file-AbC123dEf456GhI789jKl012MnO345pQ", "asst_AbC123dEf456GhI789jKl012", "resp_67ccd3a9da748190baa7f1570fe91ac604becb25c45c1d41", "cus_NffrFeUfNV2Hib", "pi_3MtwBwLkdIwHu7ix28a3tqPa"],
    "Chinese": ["你好，世界。今天气温23度，湿度45%。", "第12345678号文件", "订单号 13812345678", "全国人口14亿1178万人", "会议时间：２０２６年１１月３０日", "工号：100234567", "东经116.4074°北纬39.9042°", "请在12:30前到3号楼201室", "邮编：100080", "流水号：20261130123456789012", "密钥长度为256位", "令牌桶算法每秒100个请求"],
    "Japanese": ["東京都千代田区1-1-1", "〒100-0001", "価格は１２，３４５円です", "注文番号 4155552671", "令和8年11月30日 午後3時", "品番AB-1234-5678", "トークンの長さは4096です", "平成元年1月8日"],
    "Arabic": ["مرحبا بالعالم ٢٠٢٦", "السعر ١٢٣٤٥ ريال", "الطلب رقم ٩٨٧٦٥٤٣٢١٠", "الساعة ١٢:٣٠", "می‌خواهم ۱۲۳ کتاب", "نسخه ۲٫۴"],
    "emoji": ["👍🏽 100% ✅", "👩‍👩‍👧‍👦 family of 4", "🎉🎉 2026 🎉🎉", "❤️ 1️⃣2️⃣3️⃣", "😀:12:34:56", "🇩🇪 49 🇫🇷 33"],
    "other scripts": ["Москва, 2026 год, дом 12", "ราคา ๑๒๓ บาท", "मूल्य १२३४५ रुपये", "서울시 강남구 123-45", "Αθήνα 2026", "שלום 2026"],
}  # fmt: skip

FILES = {
    "keys": keys,
    "credentials": credentials,
    "identifiers": identifiers,
    "contacts": contacts,
    "without_shape": secrets_without_shape,
    "spellings": spellings,
    "hard_negatives": hard_negatives,
}


def lines(name: str) -> str:
    """Give one file of the corpus, an object a line."""
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in FILES[name]())


def main() -> None:
    for name in FILES:
        path = Path(__file__).with_name(f"{name}.jsonl")
        path.write_text(lines(name), encoding="utf-8")
        print(path.name, len(path.read_text(encoding="utf-8").splitlines()))


if __name__ == "__main__":
    main()
