"""The one tree of errors a user can meet.

    StudioError
    ├── InvalidRequest        a field is wrong: value, limit and remedy are in the sentence
    │   ├── TooLarge          a body, file or text is over its size limit
    │   ├── Conflict          a name is taken
    │   └── InvalidReference  a reference recording cannot be used
    ├── NotFound              a voice, model, take or request id that does not exist
    ├── Forbidden             it may not be done like this: without consent, outside a folder
    ├── StorageFailed         the disk is full, or what is stored cannot be read or written
    ├── CheckpointError       a checkpoint cannot be opened
    ├── QueueFull             admission refused; try again later
    │   ├── OwnerShareUsed    the caller's own share is used up
    │   └── Unavailable       loading, draining, or stopped
    ├── Cancelled             the request was cancelled
    └── GenerationFailed      a request failed inside the engine; others go on

Each error carries a stable ``code``, the ``field`` it names (or None) and one plain sentence. The
tree knows nothing of HTTP: ``studio/api/errors.py`` alone gives it status codes.
"""

from __future__ import annotations


class StudioError(Exception):
    """A problem told in one sentence that names field, value, limit and remedy."""

    code = "internal_error"

    def __init__(self, message: str, *, field: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        if code is not None:
            self.code = code


class InvalidRequest(StudioError):
    """A field of a request has a value that cannot be used."""

    code = "invalid_value"


class TooLarge(InvalidRequest):
    """Something is over its size limit."""

    code = "too_large"


class Conflict(InvalidRequest):
    """A name that somebody wants to use stands for something else already."""

    code = "conflict"


class InvalidReference(InvalidRequest):
    """A reference recording cannot be read or used."""

    code = "invalid_reference_audio"


class NotFound(StudioError):
    """Something named by the caller does not exist."""

    code = "not_found"


class Forbidden(StudioError):
    """The request is understood and may not be done like this."""

    code = "forbidden"


class StorageFailed(StudioError):
    """The studio's own storage failed; nothing half-written is left."""

    code = "storage_failed"


class CheckpointError(StudioError):
    """A checkpoint folder or file cannot be opened."""

    code = "checkpoint_error"


class QueueFull(StudioError):
    """The request was not admitted; ``retry_after_s`` is the honest wait estimate in seconds."""

    code = "queue_full"

    def __init__(self, message: str, *, retry_after_s: float, field: str | None = None) -> None:
        super().__init__(message, field=field)
        self.retry_after_s = retry_after_s


class OwnerShareUsed(QueueFull):
    """The caller's own share of the queue is used up; others may still be admitted."""

    code = "rate_limited"


class Unavailable(QueueFull):
    """The engine is loading, draining or stopped."""

    code = "unavailable"


class Cancelled(StudioError):
    """The request was cancelled before it ended."""

    code = "cancelled"


class GenerationFailed(StudioError):
    """The engine failed on this one request."""

    code = "generation_failed"
