"""A tracer under trial: how to attach it to LangChain with a given TracerProvider."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.callbacks import BaseCallbackHandler
from opentelemetry.sdk.trace import TracerProvider

Mask = Callable[[str], str]


@dataclass(frozen=True)
class Options:
    """How a probe wants the tracer to be set up.

    Attributes:
        content: False turns every documented content switch of the tracer off.
        mask: Applied to every text that the tracer records, if it offers such a thing.
        both_ways: Attach globally and hand the handler to every run as well.
        attach: False leaves it to the probe to attach the tracer.
    """

    content: bool = True
    mask: Mask | None = None
    both_ways: bool = False
    attach: bool = True


@dataclass(frozen=True)
class Attached:
    """A tracer that is at work.

    Attributes:
        detach: Take the tracer out of LangChain again.
        handler: What has to be passed as a callback of every run; None when attached globally.
        open_runs: Number of entries in the tracer's own tables of running runs, if it is known
            where they are.
    """

    detach: Callable[[], None]
    handler: BaseCallbackHandler | None = None
    open_runs: Callable[[BaseCallbackHandler], int] | None = None


@dataclass(frozen=True)
class Subject:
    """A tracer of the table.

    Attributes:
        name: How it is asked for on the command line.
        attach: Puts it to work.
        distributions: What has to be installed, and whose versions the report names.
        declined: Probes (by name or by group) for which it does not stand, and why.
        masks: Whether it can apply a `Mask`.
        both_ways: Whether it can be attached globally and by handler at once.
    """

    name: str
    attach: Callable[[TracerProvider, Options], Attached]
    distributions: Sequence[str] = ()
    declined: Mapping[str, str] = field(default_factory=dict)
    masks: bool = False
    both_ways: bool = False
