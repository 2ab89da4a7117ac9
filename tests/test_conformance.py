"""otelchain passes every probe of the conformance kit, and the kit finds the faults of others."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import otelchain.conformance
from otelchain.conformance import report
from otelchain.conformance.launch import try_all
from otelchain.conformance.probe import all_probes
from otelchain.conformance.tracers import KNOWN, UnknownTracerError, find
from otelchain.conformance.verdict import Verdict

TESTS = Path(__file__).parent
PROBES = {probe.name: probe for probe in all_probes()}
# Verdicts that hang on the clock are for the report, not for a test.
UNTIMED = [name for name, probe in PROBES.items() if not probe.timed]

# What the attaching tracer does wrong, each fault by itself; see bad_tracers.py.
FAULTS = {
    "cancelled-model-ainvoke": "waits for an end that langchain-core never reports",
    "cancelled-retriever": "waits for an end that langchain-core never reports",
    "cancelled-is-no-error": "records control flow as an error",
    "ctrl-c-retriever": "waits for an end that langchain-core never reports",
    "context-after-ainvoke": "leaves its span in the caller's context",
    "context-calls-in-a-row": "hangs the next call under a dead span",
    "context-no-dead-span": "leaves its span in the caller's context",
    "context-suppression-honoured": "does not look at the suppress key",
    "early-close-detaches": "detaches in another context",
    "early-close-is-no-error": "records control flow as an error",
    "early-close-v3": "waits for an end that langchain-core never reports",
    "ends-at-exit": "ends nothing at exit",
    "ends-bounded": "keeps every run for ever",
    "ends-generate": "forgets the siblings of a failed item",
    "ends-many-cancelled": "waits for ends that langchain-core never reports",
    "ends-reported-twice": "starts a second span for the same run",
    "ends-unknown-parent": "cannot do without the parent",
    "graphs-interrupt": "records control flow as an error",
    "graphs-interrupt-async": "records control flow as an error",
    "graphs-parent-command": "records control flow as an error",
    "graphs-resume-link": "keeps nothing of an interrupt",
    "graphs-trace-policy": "records the payload that LangGraph did not reduce",
    "graphs-goto": "records the whole payload or nothing",
    "graphs-shape": "looks at nothing but the hook",
    "hooks-all-handled": "has half of the hooks",
    "hooks-handled-tool-error": "looks at on_tool_error only",
    "runs-fallback-told": "looks at nothing but the hook",
    "runs-kind-not-guessed": "guesses the kind from the name",
    "runs-plain-llm": "has no on_llm_start",
    "tokens-cached": "adds cached tokens to the total",
    "tokens-repeated": "takes the sum over the chunks",
    "value-bad-error": "reads the text of an error before it ends the span",
    "value-budget": "records a text of any size",
    "value-dataclass-with-lock": "serialises before it ends the span",
    "value-deep-list": "serialises before it ends the span",
    "value-lone-surrogate": "hands on what the exporter cannot encode",
    "value-tuple-keys": "serialises before it ends the span",
    **{f"secret-{place}": "has no switch for content" for place in ("input", "prompt", "output")},
    **{f"secret-{place}": "has no switch for content" for place in ("query", "document", "stack")},
    **{f"secret-{place}": "has no switch for content" for place in ("metadata", "tag")},
    **{f"secret-{place}": "records errors unmasked" for place in ("error-text", "stop-sequence")},
}


def needed(name: str) -> None:
    for module in PROBES[name].needs:
        pytest.importorskip(module)


@pytest.fixture(scope="module", autouse=True)
def _path_of_the_bad_tracers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        before = os.environ.get("PYTHONPATH", "")
        root = str(Path(otelchain.conformance.__file__).parents[2])
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(TESTS), root, before])))
        yield


@pytest.fixture(scope="module", name="ours")
def _ours() -> dict[str, Verdict]:
    return dict(try_all("otelchain", UNTIMED))


@pytest.fixture(scope="module", name="of_handler")
def _of_handler() -> dict[str, Verdict]:
    return dict(try_all("otelchain-handler", UNTIMED))


@pytest.fixture(scope="module", name="attaching")
def _attaching() -> dict[str, Verdict]:
    return dict(try_all("bad_tracers:AttachingTracer", list(FAULTS)))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", UNTIMED)
def test_otelchain_passes(name: str, ours: Mapping[str, Verdict]) -> None:
    needed(name)
    assert ours[name].outcome == "pass", ours[name].seen


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", UNTIMED)
def test_a_handler_in_a_config_passes_or_declines(
    name: str, of_handler: Mapping[str, Verdict]
) -> None:
    needed(name)
    assert of_handler[name].outcome != "fail", of_handler[name].seen


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FAULTS)
def test_the_kit_finds_the_fault_of_a_bad_tracer(
    name: str, attaching: Mapping[str, Verdict]
) -> None:
    needed(name)
    assert attaching[name].outcome == "fail", f"it {FAULTS[name]}; seen: {attaching[name].seen}"


@pytest.mark.timeout(600)
def test_a_tracer_that_records_nothing_passes_nothing() -> None:
    verdicts = dict(try_all("bad_tracers:silent", UNTIMED))

    assert {name for name, verdict in verdicts.items() if verdict.outcome == "pass"} == set()
    assert verdicts["secret-input"] == Verdict("fail", "no spans")


def test_a_probe_that_hangs_has_failed_and_the_next_is_tried() -> None:
    verdicts = dict(
        try_all("bad_tracers:HangingTracer", ["cancelled-tool", "tokens-call"], probe_seconds=3)
    )

    assert verdicts["cancelled-tool"] == Verdict("fail", "not done after 3 s")
    assert verdicts["tokens-call"].outcome == "pass"


def test_a_probe_that_kills_its_process_has_failed_and_the_next_is_tried() -> None:
    verdicts = dict(try_all("bad_tracers:DyingTracer", ["value-tool-state", "tokens-call"]))

    assert verdicts["value-tool-state"].outcome == "fail"
    assert verdicts["value-tool-state"].seen.startswith("the process died")
    assert verdicts["tokens-call"].outcome == "pass"


def test_what_a_tracer_raises_into_the_application_is_a_failure() -> None:
    verdicts = dict(try_all("bad_tracers:RaisingTracer", ["value-tool-state"]))

    assert verdicts["value-tool-state"] == Verdict("fail", "raised LookupError: no such span")


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "otelchain.conformance", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_the_command_prints_a_table_and_fails_with_the_tracer() -> None:
    done = command("--tracer", "bad_tracers:AttachingTracer", "--only", "tokens")

    assert done.returncode == 1
    rows = dict(line.split()[:2] for line in done.stdout.splitlines()[1:6])
    assert rows == {
        "tokens-call": "✓",
        "tokens-last-chunk": "✓",
        "tokens-parts": "✓",
        "tokens-repeated": "✗",
        "tokens-cached": "✗",
    }
    assert done.stdout.splitlines()[-1].split() == ["passed", "3", "of", "5"]


def test_the_command_succeeds_when_otelchain_passes_whatever_others_do() -> None:
    tracers = ["--tracer", "otelchain", "--tracer", "bad_tracers:AttachingTracer"]

    done = command(*tracers, "--only", "tokens-cached", "--format", "json")

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    outcomes = {row["tracer"]: row["outcome"] for row in told["verdicts"]}
    assert outcomes == {"otelchain": "pass", "bad_tracers:AttachingTracer": "fail"}
    assert set(told["versions"]) >= {"langchain-core", "opentelemetry-sdk"}


def test_details_say_what_was_seen() -> None:
    done = command("--tracer", "bad_tracers:AttachingTracer", "--only", "ends-generate", "-v")

    assert "✗ bad_tracers:AttachingTracer: 3 started, 1 ended" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--tracer", "nobody"], "no tracer is named 'nobody'; known: otelchain,"),
        (["--tracer", "bad_tracers:absent"], "bad_tracers:absent cannot be imported"),
        (["--only", "nothing"], "no probe is named 'nothing'; --list shows them"),
    ],
)
def test_what_cannot_be_tried_is_said_in_one_line(arguments: list[str], complaint: str) -> None:
    done = command(*arguments)

    assert done.returncode == 1
    assert complaint in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_tracer_that_is_not_installed_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("otelchain.conformance.tracers._is_installed", lambda name: False)

    with pytest.raises(UnknownTracerError, match="install langfuse"):
        find("langfuse")


def test_a_markdown_table_has_a_row_for_every_probe_and_keeps_its_cells_apart() -> None:
    probes = [PROBES["tokens-call"], PROBES["tokens-cached"]]
    results = {"a": {"tokens-call": Verdict("fail", "1 | 2"), "tokens-cached": Verdict("n/a", "")}}

    assert report.as_markdown(probes, results, details=True).splitlines() == [
        "| probe | a |",
        "|---|---|",
        "| tokens-call | ✗ 1 \\| 2 |",
        "| tokens-cached | – |",  # noqa: RUF001 - the mark of not applicable
        "| **passed** | 0 of 1 |",
    ]


def test_every_probe_says_what_a_good_tracer_does_and_has_its_row_in_the_report() -> None:
    text = (Path(otelchain.conformance.__file__).parent / "README.md").read_text("utf-8")
    _header, *rows = re.findall(r"^\| ([a-z0-9-]+) \|", text, re.MULTILINE)

    assert sorted(rows) == sorted(PROBES)
    assert not any(probe.title[0].islower() for probe in PROBES.values())


def test_only_the_plain_handler_declines_and_only_what_no_callback_can_see() -> None:
    declined = {subject.name: list(subject.declined) for subject in KNOWN if subject.declined}

    assert declined == {"otelchain-handler": ["nesting"]}
