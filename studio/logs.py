"""The log: lines for people, or one JSON object a line for collectors. Ids and sizes, no content.

Whatever is logged while a request is answered carries its id, in worker threads too.
"""

from __future__ import annotations

import json
import logging
import time
from contextvars import ContextVar

# The id of the request that is being answered, "" outside of one.
current_request: ContextVar[str] = ContextVar("current_request", default="")


def begin(level: str, form: str) -> None:
    """Log on stderr from here on; ``form`` is text or json."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    # Its start and stop are the studio's own, and told by it.
    logging.getLogger("uvicorn.error").setLevel("DEBUG" if level == "debug" else "WARNING")


class TextLines(logging.Formatter):
    """LEVEL logger: message [request]."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line, with the request's id unless it says it already."""
        line, request = super().formatMessage(record), current_request.get()
        return line if not request or request in line else f"{line} [{request}]"


class JsonLines(logging.Formatter):
    """time, level, logger and message, and where there are any request and trace."""

    def format(self, record: logging.LogRecord) -> str:
        """One object on one line."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        told = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request := current_request.get():
            told["request"] = request
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return json.dumps(told)
