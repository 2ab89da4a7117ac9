"""LangSmith runs as JSON objects → facts: what the shapes of its exports have in common.

S1 is ``Run.model_dump_json`` of ``list_runs``, S2 ``runs.query``, S3 LangSmith's CLI, S4 what the
tracer sends: a run when it starts, and what changed when it ends. S5, the bulk export, is read by
langsmith_parquet.py.
"""

import json
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from otelchain_collector.exchange.langsmith_times import dotted, time_in, unix_nano, uuid

Json = dict[str, Any]
_ENDED = ("success", "error")


class BadRunError(Exception):
    """An object is not a run; the text says why and quotes nothing of it."""


class Run(NamedTuple):
    """One run. Times are nanoseconds since 1970; a start of 0 is unknown."""

    run_id: UUID
    trace_id: UUID
    parent_id: UUID | None
    start_unix_nano: int
    end_unix_nano: int | None
    ended: bool
    fields: Json

    @property
    def metadata(self) -> Json:
        """``extra.metadata`` of S1 and S4, ``metadata`` of S2 and S3."""
        extra = _object(self.fields.get("extra"))
        return _object(self.fields.get("metadata")) | _object(extra.get("metadata"))


def run_id(fields: Any) -> UUID:
    """Return the id of a run.

    Raises:
        BadRunError: There is none.
    """
    if not isinstance(fields, dict):
        raise BadRunError("it is not a JSON object")
    found: UUID | None = _read(fields, "id", uuid) or _read(fields, "run_id", uuid)
    if found is None:
        raise BadRunError("it has neither id nor run_id")
    return found


def read_run(fields: Json) -> Run:
    """Read a run.

    Raises:
        BadRunError: It has no id, no trace, or a value of another form.
    """
    own = run_id(fields)
    order = dotted(fields.get("dotted_order"))
    parents = [_read({"parent_run_ids": each}, "parent_run_ids", uuid) for each in _parents(fields)]
    parent = _read(fields, "parent_run_id", uuid)
    if parent is None and parents:
        parent = parents[-1]
    if parent is None and len(order) > 1:
        parent = order[-2][1]
    start, end = _times(fields, own, order)
    trace = _read(fields, "trace_id", uuid) or (order[0][1] if order else None)
    trace = trace or (parents[0] if parents else None) or (own if parent is None else None)
    if trace is None:
        raise BadRunError("it has neither trace_id nor dotted_order")
    return Run(own, trace, parent, start, end, _has_ended(fields, end), fields)


def _times(fields: Json, own: UUID, order: list[tuple[int, UUID]]) -> tuple[int, int | None]:
    start, end = _read(fields, "start_time", unix_nano), _read(fields, "end_time", unix_nano)
    if start is None and order and order[-1][1] == own:
        start = order[-1][0]
    if start is None:
        start = time_in(own)
    latency = fields.get("latency_seconds")
    if end is None and start is not None and isinstance(latency, (int, float)):
        end = start + round(latency * 10**9)
    return start if start is not None else end or 0, end


def _has_ended(fields: Json, end_unix_nano: int | None) -> bool:
    if end_unix_nano is not None or fields.get("error"):
        return True
    status = fields.get("status")
    if isinstance(status, str) and status:
        return status.lower() in _ENDED
    return bool(fields.get("outputs"))


def _parents(fields: Json) -> list[Any]:
    found = fields.get("parent_run_ids")
    return found if isinstance(found, list) else []


def _read(fields: Json, name: str, reader: Any) -> Any:
    try:
        return reader(fields.get(name))
    except ValueError as error:
        raise BadRunError(f"{name} is {error}") from error


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


class OpenRuns:
    """Runs of which more may come, kept on disk by id until their other half is read."""

    def __init__(self) -> None:
        # SQLite's own temporary file, of which it keeps some megabytes in memory.
        self._held = sqlite3.connect("", isolation_level=None)
        self._held.execute("CREATE TABLE held (id TEXT PRIMARY KEY, place TEXT, fields TEXT)")

    def close(self) -> None:
        """Forget everything."""
        self._held.close()

    def joined(self, place: str, fields: Json) -> Json | None:
        """Return the whole run, or None and keep what there is until the rest comes.

        Raises:
            BadRunError: It has no id, or cannot be read.
        """
        key = run_id(fields).hex
        held = self._held.execute("SELECT fields FROM held WHERE id = ?", [key]).fetchone()
        whole = _merged(json.loads(held[0]), fields) if held else fields
        if whole.get("name") and read_run(whole).ended and _knows_start(whole):
            if held:
                self._held.execute("DELETE FROM held WHERE id = ?", [key])
            return whole
        content = json.dumps(whole)
        self._held.execute("INSERT OR REPLACE INTO held VALUES (?, ?, ?)", [key, place, content])
        return None

    def rest(self) -> Iterator[tuple[str, Json]]:
        """Yield what never became whole, with the place where it was read last."""
        for place, fields in self._held.execute("SELECT place, fields FROM held ORDER BY rowid"):
            yield place, json.loads(fields)


def _knows_start(fields: Json) -> bool:
    # What LangSmith's CLI exports has no times at all, and nothing more comes.
    return bool(fields.get("start_time")) or not fields.get("end_time")


def _merged(before: Json, after: Json) -> Json:
    """Return a run with what the later object says; lists and texts replace, objects join."""
    whole = dict(before)
    for name, value in after.items():
        if isinstance(value, dict) and isinstance(whole.get(name), dict) and name == "extra":
            whole[name] = _merged(whole[name], value)
        elif name == "metadata" and isinstance(value, dict):
            whole[name] = _object(whole.get(name)) | value
        elif value not in (None, "", [], {}) or name not in whole:
            whole[name] = value
    return whole
