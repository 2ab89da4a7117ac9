"""Verdicts → one table: probes down, tracers across."""

import json
from collections.abc import Mapping, Sequence

from otelchain.conformance.probe import Probe
from otelchain.conformance.verdict import FAIL, NOT_APPLICABLE, PASS, Verdict

MARKS = {PASS: "✓", FAIL: "✗", NOT_APPLICABLE: "–"}  # noqa: RUF001 - not a minus

Results = Mapping[str, Mapping[str, Verdict]]
"""Verdicts by tracer, then by probe."""


def as_table(probes: Sequence[Probe], results: Results, *, details: bool) -> str:
    """Columns of text for a terminal."""
    width = max(len(each.name) for each in probes)
    columns = list(results)
    lines = [" " * width + "".join(f"  {name}" for name in columns)]
    for each in probes:
        cells = (f"  {_mark(results[name], each):<{len(name)}}" for name in columns)
        lines.append(f"{each.name:<{width}}{''.join(cells)}".rstrip())
        if details:
            lines.extend(_details(each, results))
    lines.append(_totals_row("passed", width, probes, results))
    return "\n".join(lines)


def as_markdown(probes: Sequence[Probe], results: Results, *, details: bool) -> str:
    """A Markdown table, a cell's detail beside its mark when asked for."""
    columns = list(results)
    lines = ["| probe | " + " | ".join(columns) + " |", "|---" + "|---" * len(columns) + "|"]
    for each in probes:
        cells = [_markdown_cell(results[name], each, details=details) for name in columns]
        lines.append(f"| {each.name} | " + " | ".join(cells) + " |")
    totals = [_total(probes, results[name]) for name in columns]
    lines.append("| **passed** | " + " | ".join(totals) + " |")
    return "\n".join(lines)


def as_json(probes: Sequence[Probe], results: Results, versions: Mapping[str, str]) -> str:
    """Everything, for programs."""
    rows = [
        {
            "probe": each.name,
            "title": each.title,
            "tracer": tracer,
            "outcome": verdicts[each.name].outcome,
            "seen": verdicts[each.name].seen,
        }
        for each in probes
        for tracer, verdicts in results.items()
        if each.name in verdicts
    ]
    return json.dumps({"versions": versions, "verdicts": rows}, indent=2, ensure_ascii=False)


def _mark(verdicts: Mapping[str, Verdict], each: Probe) -> str:
    verdict = verdicts.get(each.name)
    return MARKS[verdict.outcome] if verdict else " "


def _details(each: Probe, results: Results) -> list[str]:
    lines = [f"    {each.title}"]
    for name, verdicts in results.items():
        verdict = verdicts.get(each.name)
        if verdict:
            lines.append(f"      {MARKS[verdict.outcome]} {name}: {verdict.seen}")
    return lines


def _markdown_cell(verdicts: Mapping[str, Verdict], each: Probe, *, details: bool) -> str:
    verdict = verdicts.get(each.name)
    if verdict is None or not details:
        return _mark(verdicts, each)
    return f"{MARKS[verdict.outcome]} {verdict.seen}".strip().replace("|", "\\|").replace("\n", " ")


def _total(probes: Sequence[Probe], verdicts: Mapping[str, Verdict]) -> str:
    told = [verdicts[each.name].outcome for each in probes if each.name in verdicts]
    return f"{told.count(PASS)} of {len(told) - told.count(NOT_APPLICABLE)}"


def _totals_row(label: str, width: int, probes: Sequence[Probe], results: Results) -> str:
    cells = (f"  {_total(probes, verdicts):<{len(name)}}" for name, verdicts in results.items())
    return f"{label:<{width}}{''.join(cells)}".rstrip()
