"""GET /healthz and /readyz: does the process live, and would spans sent now be kept?"""

from typing import Literal

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from otelchain_collector.budget import ByteBudget
from otelchain_collector.writer import Writer


class Health:
    """What the collector says about itself."""

    def __init__(self, writer: Writer, budget: ByteBudget) -> None:
        self.phase: Literal["starting", "ready", "stopping"] = "starting"
        self._writer = writer
        self._budget = budget

    def routes(self) -> list[Route]:
        """Return the two routes."""
        return [Route("/healthz", self._healthz), Route("/readyz", self._readyz)]

    async def _healthz(self, _: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def _readyz(self, _: Request) -> JSONResponse:
        """503 while starting or stopping, and after a failed commit until the file works again."""
        failure = self._writer.failure
        counts = self._writer.counts
        status = self.phase if failure is None else f"last commit failed: {failure}"
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
            },
            200 if status == "ready" else 503,
        )
