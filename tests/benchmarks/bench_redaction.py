"""What the default redaction costs, in microseconds of CPU: texts and trees of about 1 KB.

python tests/benchmarks/bench_redaction.py
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from otelchain import Redactor
from otelchain.redaction import PolicyRule

REPEATS = 9
SENTENCE = "The retriever found three passages, and the model answered from the second of them. "
UUID = " 3f2c9a7e-5b1d-4e8f-9c6a-d0e1f2a3b4c5"
CALL = " call_9aZ3kqW1xYbTc7Rd2Lm5Np8Q"
CHINESE = "检索器找到了三个段落 模型根据其中第二个段落回答了问题 "


def messages(text: str) -> list[dict[str, Any]]:
    roles = ["system", "user", "assistant", "user"]
    parts = [text[number::4] for number in range(4)]
    return [
        {"role": role, "parts": [{"type": "text", "content": part}]}
        for role, part in zip(roles, parts, strict=True)
    ]


def microseconds(call: Callable[[], Any], calls: int) -> float:
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        for _ in range(calls):
            call()
        times.append((time.process_time() - started) / calls * 1e6)
    return min(times)


def main() -> None:
    redactor = Redactor()
    path = PolicyRule(name="customer", paths=["metadata.customer.*"], action="remove")
    with_path = Redactor(rules=[path])
    plain = (SENTENCE * 13)[:1024]
    tree = messages(plain)
    long = SENTENCE * (5_000_000 // len(SENTENCE))
    cases: dict[str, tuple[Callable[[], Any], int]] = {
        "text(), 1 KB without findings": (lambda: redactor.text(plain), 2_000),
        "text(), 1 KB of Chinese": (lambda: redactor.text(CHINESE * 13), 2_000),
        "value(), four messages, 1 KB": (lambda: redactor.value(tree), 2_000),
        "text(), 1 KB with a UUID": (lambda: redactor.text(plain + UUID), 2_000),
        "text(), 1 KB with a tool call id": (lambda: redactor.text(plain + CALL), 500),
        "the same with a rule for a path": (lambda: with_path.value(tree), 1_000),
        "text(), 1 KB with an e-mail": (lambda: redactor.text(plain + " bob@example.com"), 500),
        "text(), 1 KB with api_key=": (lambda: redactor.text(plain + " api_key=s3cr3t9"), 500),
        "text(), 5 MB without findings": (lambda: redactor.text(long), 1),
    }
    print("$ python", *sys.argv)
    for name, (call, calls) in cases.items():
        call()
        print(f"{name:<36}{microseconds(call, calls):>12.1f} µs")


if __name__ == "__main__":
    main()
