"""The example for Python and notebooks in the README does what it says."""

import re
from pathlib import Path
from typing import Any

import pytest

from stored_runs import SUPPORT_RUNS, make_store, run

README = Path(__file__).parents[1] / "README.md"


def test_the_example_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = README.read_text().partition("## In Python, or a notebook\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    second = run(9, 3, "again", "llm", model="fake-1", duration_ms=500, total_tokens=46)
    make_store(tmp_path / "otelchain.duckdb", [*SUPPORT_RUNS, second])
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}

    exec(code, names)

    assert names["by_model"].to_dict("index") == {
        "fake-1": {"duration_ms": 1000.0, "total_tokens": 200}
    }
    assert list(names["slow"]["name"]) == ["lookup"]
    assert names["inputs"].set_index("name")["inputs"]["lookup"] == {"id": 42}
    assert dict(zip(names["counts"]["status"], names["counts"]["runs"], strict=True)) == {
        "ok": 4,
        "error": 1,
    }
    assert {"id": 42} in list(names["calls"]["inputs"])
    assert names["tree"]._repr_html_().startswith("<div>")
    assert "lookup [tool]" in names["tree"].waterfall()
