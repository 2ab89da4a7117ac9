"""Does any rule take more than linear time? Every rule against texts that are meant to hurt it.

    python tests/benchmarks/bench_redaction_linear.py

The texts repeat what the labelled corpus has for the rule: whole, cut short, only its beginning,
and characters that its parts accept. A figure is CPU time at four times the size over the time at
one size: 4 is linear, 16 quadratic. The slowest rules are printed, and everything above 8.
"""

# ruff: noqa: E501 (lists)
import itertools
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from corpus_scores import texts
from otelchain import Redactor

SMALL, LARGE = 8_000, 32_000
REPEATS = 2
FILLERS = ["a", "1", "A1b", "1 ", "1.", "::", "a.", "a-", "--", "\\", '"', "=", "key ", "%41", "QUFB", "\u0661", "a\u200b", "中1", "@a.", "x@y.zz", "+1", "://a:"]  # fmt: skip


def hurting() -> Iterator[str]:
    seen: dict[str, int] = defaultdict(int)
    for text, labels, _, _ in texts():
        for start, end, detectors in labels:
            seen[detectors[0]] += 1
            if seen[detectors[0]] % 6 == 1:
                value = text[max(0, start - 16) : end]
                yield from (value, value[:-2], value[: len(value) // 2], value[:6], value + " ")
    yield from FILLERS
    yield from ("".join(pair) for pair in itertools.permutations(FILLERS[:12], 2))
    yield from ("password=", 'token="', "cookie: a=", "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaaa.", "Authorization: Bearer ")  # fmt: skip


def seconds(redactor: Redactor, text: str) -> float:
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        redactor.text(text)
        times.append(time.process_time() - started)
    return min(times)


def main() -> None:
    redactor = Redactor()
    rows = []
    for unit in dict.fromkeys(hurting()):
        if not unit:
            continue
        small, large = ((unit * (size // len(unit) + 1))[:size] for size in (SMALL, LARGE))
        rows.append((seconds(redactor, large), seconds(redactor, small), unit))
    print("$ python", *sys.argv)
    print(f"{len(rows)} texts of {LARGE:,} characters")
    rows.sort(reverse=True)
    for large_s, small_s, unit in rows[:5]:
        print(f"slowest: {large_s * 1e3:8.1f} ms, {large_s / small_s:5.1f} x  {unit[:50]!r}")
    steep = [row for row in rows if row[0] > 8 * row[1] and row[0] > 0.002]
    for large_s, small_s, unit in steep:
        print(f"steep:   {large_s * 1e3:8.1f} ms, {large_s / small_s:5.1f} x  {unit[:50]!r}")
    print("all linear" if not steep else f"{len(steep)} are steeper than linear")


if __name__ == "__main__":
    main()
