"""What values look like in answers; the document's table (value_forms.py) comes from the same."""

from pathlib import Path

import pyarrow as pa
import pytest

from stored_runs import asked, make_store
from value_forms import forms

BIG = 170_141_183_460_469_231_731_687_303_715_884_105_727  # 39 digits, the last HUGEINT


@pytest.mark.parametrize(
    ("value", "json_text", "kind"),
    [
        ("'NaN'::DOUBLE", "null", pa.float64()),
        ("'-Infinity'::FLOAT", "null", pa.float32()),
        ("18446744073709551615::HUGEINT", "18446744073709551615", pa.decimal128(38)),
        ("18446744073709551616::HUGEINT", '"18446744073709551616"', pa.decimal128(38)),
        (f"{BIG}::HUGEINT", f'"{BIG}"', pa.decimal256(39)),
        (f"-{BIG}::HUGEINT", f'"-{BIG}"', pa.decimal256(39)),
        ("42::UHUGEINT", '"42"', pa.string()),
        ("1.50::DECIMAL(9, 2)", '"1.50"', pa.decimal128(9, 2)),
        (r"'\xAA\x01'::BLOB", '"aa01"', pa.binary()),
        ("""'{"a": 1}'::JSON""", r'"{\"a\": 1}"', pa.string()),
        ("TIME '10:00:00'", '"10:00:00"', pa.string()),
        ("INTERVAL '90 minutes'", '"01:30:00"', pa.string()),
        ("'101'::BIT", '"101"', pa.string()),
        ("union_value(a := 1)", '"1"', pa.string()),
        (
            "'4bf92f35-77b3-4da6-a3ce-929d0e0e4736'::UUID",
            '"4bf92f35-77b3-4da6-a3ce-929d0e0e4736"',
            pa.string(),
        ),
    ],
)
def test_a_value_looks_as_the_document_says(value: str, json_text: str, kind: pa.DataType) -> None:
    assert forms(value) == (json_text, kind)


@pytest.mark.parametrize(
    "value", ["[{big}]", "{{'a': {big}}}", "MAP {{1: {big}}}", "[{big}]::HUGEINT[1]"]
)
def test_an_integer_of_39_digits_fits_its_arrow_type_wherever_it_stands(value: str) -> None:
    _, kind = forms(value.format(big=f"{BIG}::HUGEINT"))

    assert "decimal256(39, 0)" in str(kind)


NUMBERS = (
    "SELECT unnest(['NaN', 'Infinity', '-Infinity', NULL])::DOUBLE AS x, "
    "['NaN'::FLOAT, 1.5] AS inside"
)


@pytest.mark.parametrize(
    ("format_name", "shown"),
    [
        (
            "csv",
            (
                'x,inside\r\nNaN,"[NaN, 1.5]"\r\nInfinity,"[NaN, 1.5]"\r\n'
                '-Infinity,"[NaN, 1.5]"\r\n,"[NaN, 1.5]"\r\n'
            ),
        ),
        (
            "markdown",
            (
                "| x | inside |\n| ---: | --- |\n| NaN | [NaN, 1.5] |\n| Infinity | [NaN, 1.5] |\n"
                "| -Infinity | [NaN, 1.5] |\n|  | [NaN, 1.5] |\n"
            ),
        ),
        (
            "table",
            (
                "        x  inside\n---------- ----------\n      NaN  [NaN, 1.5]\n"
                " Infinity  [NaN, 1.5]\n-Infinity  [NaN, 1.5]\n           [NaN, 1.5]\n"
            ),
        ),
        ("jsonl", '{"x": null, "inside": [null, 1.5]}\n' * 4),
    ],
)
def test_a_measured_nan_is_told_apart_from_nothing_where_the_format_can(
    format_name: str, shown: str, tmp_path: Path
) -> None:
    database = str(make_store(tmp_path / "a.duckdb", []))

    result = asked("sql", NUMBERS, "--format", format_name, "--database", database)

    assert result.stdout.decode() == shown


def test_a_condition_takes_a_nan_for_nothing_in_every_format(tmp_path: Path) -> None:
    database = str(make_store(tmp_path / "a.duckdb", []))
    sql = "SELECT unnest(['NaN', '1'])::DOUBLE AS x"

    codes = {
        asked(
            "sql", sql, "--format", name, "--fail-if", "MAX(x) = 1", "--database", database
        ).returncode
        for name in ("table", "csv", "markdown", "json", "jsonl")
    }

    assert codes == {1}
