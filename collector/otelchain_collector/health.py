"""GET /healthz, /livez and /readyz: does the process live, and would spans sent now be kept?"""

from typing import Final, Literal, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from otelchain_collector.budget import ByteBudget
from otelchain_collector.store import Store
from otelchain_collector.tokens import Tokens, Verdict
from otelchain_collector.writer import Writer

# The time that an SDK gives an export, with all its tries: what is committed later comes too late.
STALLED_SECONDS: Final = 10.0


class _State(NamedTuple):
    """One word, and what is behind it."""

    word: str
    reason: str = ""


class Health:
    """What the collector says about itself.

    Where tokens are configured, whoever has none that permits reading ``/metrics`` or the store
    learns the state in one word: counts tell how much an application is used, and the reason of a
    failure may name files.
    """

    def __init__(self, writer: Writer, store: Store, budget: ByteBudget, tokens: Tokens) -> None:
        self._tokens = tokens
        self.phase: Literal["starting", "ready", "stopping"] = "starting"
        self._writer = writer
        self._store = store
        self._budget = budget

    def routes(self) -> list[Route]:
        """Return the three routes."""
        return [
            Route("/healthz", self._live),
            Route("/livez", self._live),
            Route("/readyz", self._ready),
        ]

    async def _live(self, _: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def _ready(self, request: Request) -> JSONResponse:
        """503 while it starts or stops, and while commits fail or stall."""
        counts = self._writer.counts
        state = self._state()
        http_status = 200 if state.word == "ready" else 503
        if not self._may_see_more(request):
            return JSONResponse({"status": state.word}, http_status)
        return JSONResponse(
            {
                "status": state.reason or state.word,
                # Since this process started.
                "spans_stored": counts.stored,
                "spans_pending": counts.pending,
                "log_records_stored": counts.logs,
                "data_points_stored": counts.metric_points,
                "records_duplicate": counts.duplicates,
                "records_rejected": counts.rejected,
                "queue_bytes": self._budget.used_bytes,
                "queue_limit_bytes": self._budget.limit_bytes,
                "database_reopened": self._store.database.reopened,
                # What a commit has met; null for nothing.
                "damage": self._store.damage,
                # Not the name of the file: everybody may ask this.
                "log_losses": [
                    {"reason": loss.reason, "lost_bytes": loss.lost_bytes}
                    for loss in self._store.database.log_losses
                ],
            },
            http_status,
        )

    def _may_see_more(self, request: Request) -> bool:
        shown = tuple(request.headers.getlist("authorization"))
        return any(
            self._tokens.check(shown, permission) is Verdict.ALLOWED
            for permission in ("metrics", "read")
        )

    def _state(self) -> _State:
        if self._writer.failure is not None:
            return _State("failing", f"last commit failed: {self._writer.failure}")
        if self.phase != "ready":
            return _State(self.phase)
        if not self._writer.is_running:
            return _State("ended", "the writer has ended; restart the collector")
        busy_seconds = self._writer.watch.busy_seconds
        if busy_seconds > STALLED_SECONDS:
            return _State("stalled", f"commits stall: one has run for {busy_seconds:.0f} s")
        return _State(self.phase)
