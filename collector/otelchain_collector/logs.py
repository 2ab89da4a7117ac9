"""The log on standard error: text or JSON lines, and never a value that a client sent."""

import json
import logging
import traceback
from datetime import datetime, timezone
from typing import Final

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def set_up(form: str, level: str) -> None:
    """Log from now on; ``form`` is ``text`` or ``json``, ``level`` a name of logging."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines() if form == "json" else _Text(_TEXT))
    logging.basicConfig(handlers=[handler], force=True)
    logging.getLogger("otelchain_collector").setLevel(level.upper())


class _Text(logging.Formatter):
    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        """Return the frames and the type: the text of an error may quote what a client sent."""
        return _frames(ei)


class _JsonLines(_Text):
    def format(self, record: logging.LogRecord) -> str:
        """Return one JSON object."""
        time = datetime.fromtimestamp(record.created, timezone.utc)
        line = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = _frames(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _frames(exc_info: object) -> str:
    assert isinstance(exc_info, tuple)
    kind, _, trace = exc_info
    frames = "".join(traceback.format_tb(trace)).rstrip()
    name = "NoneType" if kind is None else kind.__name__
    return f"Traceback (most recent call last):\n{frames}\n{name}"
