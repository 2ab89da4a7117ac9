"""The condition of --fail-if: what it means, and what is said about a wrong one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otelchain.cli.condition import MAX_CHARS, ConditionError, parse_condition
from otelchain_collector.answer import Answer, Column

ANSWER = Answer(
    columns=(
        Column("name", "VARCHAR"),
        Column("duration_ms", "DOUBLE"),
        Column("tokens", "BIGINT"),
        Column("cost", "DECIMAL(18,3)"),
        Column("odd name", "BIGINT"),
        Column("nothing", "DOUBLE"),
    ),
    rows=[
        ["a", 0.1, 10, "0.500", 1, None],
        ["b", 0.2, None, "0.250", 1, None],
        ["c", 7250.5, 9007199254740993, None, 1, None],
    ],
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COUNT > 2", True),
        ("COUNT > 3", False),
        ("count(*)=3", True),
        ("COUNT(tokens) = 2", True),
        ("COUNT(name) <> 3", False),
        ("MAX(duration_ms) >= 7250.5", True),
        ("MIN(duration_ms) = 0.1", True),
        # Binary floating point says 0.30000000000000004 + 7250.5.
        ("SUM(duration_ms) == 7250.8", True),
        ("AVG(tokens) > 4503599627370501", True),
        ("MAX(tokens) = 9007199254740993", True),
        ("SUM(cost) = 0.75", True),
        ('MAX("odd name") < 2', True),
        ("MAX(TOKENS) > 1e15", True),
        ("NOT COUNT = 3", False),
        ("NOT NOT COUNT = 3", True),
        ("COUNT = 1 OR COUNT = 3", True),
        ("COUNT = 3 AND COUNT = 1", False),
        # AND binds more strongly than OR.
        ("COUNT = 3 OR COUNT = 1 AND COUNT = 1", True),
        ("(COUNT = 3 OR COUNT = 1) AND COUNT = 1", False),
        ("-1 < +1", True),
        # As in SQL, what is compared with nothing is neither true nor false.
        ("MAX(nothing) > 0", False),
        ("NOT MAX(nothing) > 0", False),
        ("MAX(nothing) > 0 OR COUNT = 3", True),
        ("NOT (MAX(nothing) > 0 AND COUNT = 1)", True),
    ],
)
def test_a_condition_holds_or_not(text: str, expected: bool) -> None:
    assert parse_condition(text).holds(ANSWER) is expected


def test_nothing_but_the_count_is_known_of_no_rows() -> None:
    empty = Answer(ANSWER.columns, [])

    assert parse_condition("COUNT = 0").holds(empty)
    assert not parse_condition("SUM(tokens) = 0").holds(empty)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a number, COUNT, MIN(…), MAX(…), SUM(…) or AVG(…) at character 1, but it"),
        ("COUNT", "expected a comparison such as > at character 6, but it ends"),
        ("COUNT > ", "at character 8, but it ends"),
        ("COUNT > x", "at character 9, but there is 'x'"),
        ("COUNT > 3 COUNT", "expected AND, OR or the end at character 11, but there is 'COUNT'"),
        ("MAX > 3", "expected '(' at character 5, but there is '>'"),
        ("MAX(1) > 3", "expected the name of a column at character 5, but there is '1'"),
        ("(COUNT > 3", "expected ')' at character 11, but it ends"),
        ("COUNT > 3; DROP", "';' at character 10 has no meaning there"),
        ("COUNT > 'a'", '"\'" at character 9 has no meaning there'),
        ("__import__('os')", "has no meaning there"),
        ("1" * (MAX_CHARS + 1), f"the condition is longer than {MAX_CHARS} characters"),
    ],
)
def test_what_is_no_condition_is_refused_with_the_place(text: str, expected: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse_condition(text)

    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MAX(duration) > 1", "the answer has no column 'duration'; did you mean 'duration_ms'?"),
        ("COUNT(zzz) > 1", "the answer has no column 'zzz'; it has: name, duration_ms, tokens, "),
        ("MAX(name) > 1", "column 'name' holds no numbers but VARCHAR"),
    ],
)
def test_a_column_that_cannot_be_counted_is_named(text: str, expected: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse_condition(text).holds(ANSWER)

    assert expected in str(caught.value)


PARTS = ["COUNT", "MAX", "(", ")", "tokens", ">", "=", "3", "AND", "OR", "NOT", '"', " ", "-", "é"]


@given(st.lists(st.sampled_from(PARTS), max_size=30).map(" ".join) | st.text(max_size=60))
def test_whatever_is_typed_is_a_condition_or_refused(text: str) -> None:
    try:
        holds = parse_condition(text).holds(ANSWER)
    except ConditionError:
        return
    assert holds in (True, False)


def test_parentheses_may_be_as_deep_as_a_condition_is_long() -> None:
    depth = (MAX_CHARS - 9) // 2

    assert parse_condition("(" * depth + "COUNT = 3" + ")" * depth).holds(ANSWER)
