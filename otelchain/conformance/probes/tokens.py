"""Token counts are there, and no token is counted twice."""

from typing import Any

from otelchain.conformance.applications import ChatModel
from otelchain.conformance.dialects import input_tokens, output_tokens
from otelchain.conformance.probe import probe
from otelchain.conformance.trial import Trial
from otelchain.conformance.verdict import Verdict, judge


def _usage(into: int, out: int, **details: Any) -> Any:
    return {"input_tokens": into, "output_tokens": out, "total_tokens": into + out, **details}


def _seen(trial: Trial, wanted: tuple[int, int]) -> Verdict:
    trial.settle()
    ended = trial.log.ended()
    found = (input_tokens(ended), output_tokens(ended))
    good = found == ([wanted[0]], [wanted[1]])
    return judge(good, f"input {found[0]}, output {found[1]}; {wanted[0]} and {wanted[1]} used")


@probe("Tokens of a call are recorded")
def tokens_call(trial: Trial) -> Verdict:
    """From the answer's ``usage_metadata``."""
    ChatModel(usage=_usage(10, 3)).invoke("x", trial.config())
    return _seen(trial, (10, 3))


@probe("Tokens of a stream are recorded when they come with the last, empty chunk")
def tokens_last_chunk(trial: Trial) -> Verdict:
    """As providers send them."""
    model = ChatModel(answer="one two", chunk_usages=[None, None, _usage(5, 3)])
    list(model.stream("x", trial.config()))
    return _seen(trial, (5, 3))


@probe("Tokens of a stream whose chunks each count their own part are added up")
def tokens_parts(trial: Trial) -> Verdict:
    """What langchain-core expects of an integration; the input comes with the first chunk."""
    usages = [_usage(10, 3), _usage(0, 2), _usage(0, 4)]
    list(ChatModel(chunk_usages=usages).stream("x", trial.config()))
    return _seen(trial, (10, 9))


@probe("Tokens of a stream whose chunks repeat the total so far are not added up")
def tokens_repeated(trial: Trial) -> Verdict:
    """An integration that sends running totals: langchain-core adds them all the same."""
    usages = [_usage(5, 1), _usage(5, 2), _usage(5, 3)]
    list(ChatModel(chunk_usages=usages).stream("x", trial.config()))
    return _seen(trial, (5, 3))


@probe("Cached tokens are not counted twice")
def tokens_cached(trial: Trial) -> Verdict:
    """10 tokens in, of which 3 were read from a cache and 2 written to it: 10, not 15."""
    details = {"cache_read": 3, "cache_creation": 2}
    ChatModel(usage=_usage(10, 4, input_token_details=details)).invoke("x", trial.config())
    return _seen(trial, (10, 4))
