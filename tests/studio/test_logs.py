import json
import logging

import pytest

from studio.logs import JsonLines, TextLines, current_request


@pytest.fixture
def record() -> logging.LogRecord:
    return logging.LogRecord("studio.x", logging.WARNING, "x.py", 1, "%d of %d", (3, 4), None)


def test_a_line_carries_the_requests_id_once(record):
    assert TextLines().format(record) == "WARNING studio.x: 3 of 4"
    token = current_request.set("r-1")
    try:
        assert TextLines().format(record) == "WARNING studio.x: 3 of 4 [r-1]"
        named = logging.LogRecord("studio.x", 20, "x.py", 1, "request %s: done", ("r-1",), None)
        assert TextLines().format(named) == "INFO studio.x: request r-1: done"
        assert json.loads(JsonLines().format(record))["request"] == "r-1"
    finally:
        current_request.reset(token)


def test_a_json_line_is_one_object_even_with_a_trace(record):
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    line = JsonLines().format(record)
    told = json.loads(line)
    assert "\n" not in line
    assert (told["level"], told["logger"], told["message"]) == ("warning", "studio.x", "3 of 4")
    assert told["time"].endswith("Z") and "ValueError" in told["trace"]
    assert "request" not in told
