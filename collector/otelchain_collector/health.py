"""GET /healthz, /livez and /readyz: does the process live, and would spans sent now be kept?"""

from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from otelchain_collector.budget import ByteBudget
from otelchain_collector.store import Store
from otelchain_collector.writer import Writer

# The time that an SDK gives an export, with all its tries: what is committed later comes too late.
STALLED_SECONDS: Final = 10.0


class Health:
    """What the collector says about itself."""

    def __init__(self, writer: Writer, store: Store, budget: ByteBudget) -> None:
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

    async def _ready(self, _: Request) -> JSONResponse:
        """503 while it starts or stops, and while commits fail or stall."""
        counts = self._writer.counts
        status = self._status()
        return JSONResponse(
            {
                "status": status,
                # Since this process started.
                "spans_stored": counts.stored,
                "spans_pending": counts.pending,
                "log_records_stored": counts.logs,
                "data_points_stored": counts.metric_points,
                "records_duplicate": counts.duplicates,
                "records_rejected": counts.rejected,
                "queue_bytes": self._budget.used_bytes,
                "queue_limit_bytes": self._budget.limit_bytes,
                "database_reopened": self._store.reopened,
                # What a commit has met; null for nothing.
                "damage": self._store.damage,
                # Not the name of the file: everybody may ask this.
                "log_losses": [
                    {"reason": loss.reason, "lost_bytes": loss.lost_bytes}
                    for loss in self._store.log_losses
                ],
            },
            200 if status == "ready" else 503,
        )

    def _status(self) -> str:
        if self._writer.failure is not None:
            return f"last commit failed: {self._writer.failure}"
        if self.phase != "ready":
            return self.phase
        if not self._writer.is_running:
            return "the writer has ended; restart the collector"
        busy_seconds = self._writer.watch.busy_seconds
        if busy_seconds > STALLED_SECONDS:
            return f"commits stall: one has run for {busy_seconds:.0f} s"
        return self.phase
