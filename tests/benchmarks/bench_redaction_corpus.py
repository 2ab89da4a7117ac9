"""Recall and precision of the default policy per detector, over the labelled corpus.

    python tests/benchmarks/bench_redaction_corpus.py [--others N]

`--others` measures N further corpora with the same shapes, but other bodies and digits: nothing was
tuned on those. Misses and wrong findings are printed.
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "corpus"))

import make_corpus

import corpus_scores
from otelchain import Redactor


def others(redactor: Redactor, number: int) -> dict[str, corpus_scores.Score]:
    total: dict[str, corpus_scores.Score] = defaultdict(corpus_scores.Score)
    for turn in range(number):
        make_corpus.salt = f"{turn} "
        corpus = [
            corpus_scores.text(json.loads(line), name)
            for name in make_corpus.FILES
            for line in make_corpus.lines(name).splitlines()
        ]
        for detector, score in corpus_scores.scores(redactor, corpus).items():
            total[detector].labelled += score.labelled
            total[detector].found += score.found
            total[detector].missed += score.missed
            total[detector].wrong += score.wrong
    return dict(sorted(total.items()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--others", type=int, default=20)
    number = parser.parse_args().others
    redactor = Redactor()
    print("$ python", *sys.argv)
    print(f"the corpus: {len(corpus_scores.texts())} texts")
    print(corpus_scores.table(corpus_scores.scores(redactor)))
    print(f"\n{number} others of the same shapes")
    measured = others(redactor, number)
    print(corpus_scores.table(measured))
    for score in measured.values():
        for example in [*score.missed, *score.wrong]:
            print(example[:200])


if __name__ == "__main__":
    main()
