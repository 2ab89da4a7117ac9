"""``otelchain redact``: what would go and by which rule, from real standard input."""

import json
from pathlib import Path

import pytest

from stored_runs import asked, otelchain

CARD = "4111 1111 1111 1111"  # Visa's test number


def test_the_text_goes_to_standard_output_and_the_findings_beside_it() -> None:
    result = otelchain("redact", "test", stdin=f"mail bob@example.com,\ncard {CARD}\n")

    assert result.returncode == 0
    assert result.stdout.decode() == "mail [REDACTED:email],\ncard [REDACTED:card]\n"
    assert result.stderr.decode() == (
        "rule   start  length  path\n"
        "email      5      15\n"
        "card      27      19\n"
    )  # fmt: skip


def test_json_is_redacted_as_the_tree_it_is_and_findings_are_rows_that_scripts_read() -> None:
    tree = {"a": [{"b": "x bob@example.com"}], "password": "hunter2"}

    text = asked("redact", "test", stdin=json.dumps(tree))
    result = asked("redact", "test", "--format", "json", stdin=json.dumps(tree))

    assert json.loads(text.stdout) == {
        "a": [{"b": "x [REDACTED:email]"}],
        "password": "[REDACTED:secret]",
    }
    rest = {"failed_texts": 0}
    assert json.loads(result.stdout) == [
        {"rule": "email", "path": "a[0].b", "start": 2, "length": 15, **rest},
        {"rule": "secret", "path": "password", "start": 0, "length": 7, **rest},
    ]
    assert b"hunter2" not in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("text", "code"), [("hello", 0), ("bob@example.com", 1), ('{"password": "x"}', 1)]
)
def test_scripts_can_ask_for_an_exit_code(text: str, code: int) -> None:
    assert asked("redact", "test", "--fail-on-rows", stdin=text).returncode == code
    assert asked("redact", "test", stdin=text).returncode == 0


def test_a_policy_is_a_file_an_option_a_variable_or_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "redaction.toml"
    path.write_text('preset = "off"\n[[rules]]\ndetectors = ["card"]\naction = "partial"\n')
    text = f"bob@example.com {CARD}"
    expected = b"bob@example.com [card:***1111]\n"

    assert asked("redact", "test", "--policy", str(path), stdin=text).stdout == expected
    by_variable = asked("redact", "test", stdin=text, OTELCHAIN_REDACTION=str(path))
    assert by_variable.stdout == expected
    by_preset = asked("redact", "test", "--preset", "secrets", stdin=text)
    assert by_preset.stdout.decode() == f"{text}\n"
    assert by_preset.stderr == b"nothing found\n"


def test_a_place_is_named_by_its_attribute(tmp_path: Path) -> None:
    path = tmp_path / "redaction.toml"
    path.write_text('[[rules]]\nname = "c"\npaths = ["metadata.customer"]\n')
    arguments = ["redact", "test", "--policy", str(path)]

    there = asked(*arguments, "--attribute", "otelchain.metadata", stdin='{"customer": "Bob"}')
    elsewhere = asked(*arguments, "--attribute", "otelchain.input", stdin='{"customer": "Bob"}')

    assert there.stdout == b'{"customer": "[REDACTED:c]"}\n'
    assert elsewhere.stdout == b'{"customer": "Bob"}\n'


def test_a_rule_that_fails_is_named(tmp_path: Path) -> None:
    path = tmp_path / "redaction.toml"
    path.write_text('[[rules]]\ncallable = "json:loads"\n')

    result = asked("redact", "test", "--policy", str(path), "--fail-on-rows", stdin="no JSON")

    rows = asked("redact", "test", "--policy", str(path), "--format", "jsonl", stdin="no JSON")
    assert json.loads(rows.stdout) == {
        **dict.fromkeys(("start", "length", "path")),
        "rule": "loads",
        "failed_texts": 1,
    }
    assert result.stdout == b"<redaction failed: loads>\n"
    assert b"rule loads failed on 1 text" in result.stderr
    assert result.returncode == 1


def test_a_policy_file_can_be_checked(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text('[[rules]]\ndetectors = ["email"]\naction = "remove"\n')
    bad.write_text('[[rules]]\ndetectors = ["emial"]\n')

    checked = asked("redact", "check", str(good))
    refused = asked("redact", "check", str(bad))

    assert checked.returncode == 0
    assert checked.stdout.decode().startswith(f"{good}: ")
    assert "rules: 1" in checked.stdout.decode()
    assert (refused.returncode, refused.stdout) == (1, b"")
    why = f"{bad}: rule 1: no redaction detector is named 'emial'; did you mean 'email'?"
    assert refused.stderr.decode().startswith(why)
    both = json.loads(asked("redact", "check", str(good), str(bad), "--format", "json").stdout)
    assert [row["file"] for row in both] == [str(good), str(bad)]
    assert [row["problem"] is None for row in both] == [True, False]
    assert both[1]["problem"].startswith(why)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "missing.toml"], "Error: missing.toml: cannot be read"),
        (["--preset", "strickt"], "Error: no redaction preset is named 'strickt'; did you mean"),
        (["--preset", "deploy/redaction.toml"], "Error: no redaction preset is named"),
    ],
)
def test_a_policy_that_cannot_be_used_is_one_line(arguments: list[str], message: str) -> None:
    result = asked("redact", "test", *arguments, stdin="hunter2")

    assert result.returncode == 2
    assert result.stdout == b""
    assert result.stderr.decode().startswith(message)
    assert result.stderr.count(b"\n") == 1
