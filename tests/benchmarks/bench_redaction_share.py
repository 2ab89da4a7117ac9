"""Which part of the handler's cost per pair is redaction: a chain with a prompt and a fake model.

    python tests/benchmarks/bench_redaction_share.py

CPU time of one pair of callbacks (the start and end of a run): with no handler, with one whose
policy is empty, and with the default policy; alternating, the fastest of many repeats. The message
has 1 KB and other words in every call, so that nothing is found in a cache.
"""

import itertools
import sys
import time
from typing import Any

from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from opentelemetry.sdk.trace import TracerProvider

from otelchain import OtelCallbackHandler, Redactor

REPEATS, INVOKES, PAIRS = 25, 40, 4  # sequence, prompt, model, parser
SENTENCE = "The retriever found three passages, and the model answered from number {}. "
numbers = itertools.count()


def message() -> str:
    return "".join(SENTENCE.format(next(numbers)) for _ in range(13))[:1024]


def microseconds(chain: Any, config: Any) -> float:
    messages = [message() for _ in range(INVOKES)]
    started = time.process_time()
    for text in messages:
        chain.invoke({"text": text}, config)
    return (time.process_time() - started) / INVOKES / PAIRS * 1e6


def main() -> None:
    prompt = ChatPromptTemplate.from_messages([("system", "Answer."), ("human", "{text}")])
    chain = prompt | FakeListChatModel(responses=[message()]) | StrOutputParser()
    provider = TracerProvider()
    configs: dict[str, Any] = {
        "no handler": {},
        "no detectors": {
            "callbacks": [OtelCallbackHandler(provider, redactor=Redactor(detectors=[]))]
        },
        "default policy": {"callbacks": [OtelCallbackHandler(provider)]},
    }
    best = dict.fromkeys(configs, float("inf"))
    for _, name in itertools.product(range(REPEATS), configs):
        best[name] = min(best[name], microseconds(chain, configs[name]))
    print("$ python", *sys.argv)
    handler = best["no detectors"] - best["no handler"]
    redaction = best["default policy"] - best["no detectors"]
    print(f"handler without detectors: {handler:6.1f} µs a pair")
    print(f"default policy besides:    {redaction:6.1f} µs a pair, {redaction / handler:.0%}")


if __name__ == "__main__":
    main()
