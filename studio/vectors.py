"""A speaker embedding as it comes from outside or is kept: a checked vector and its bytes.

The bytes are a safetensors file with one tensor, so the same numbers come back bit for bit.
"""

from __future__ import annotations

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from engine import InvalidRequest

MAX_DIM = 8192
MAX_BYTES = 4 * MAX_DIM + 4096  # the numbers and the head of the file
# Lengths beyond these are no speaker of any known encoder: a silent or a broken one.
MIN_NORM, MAX_NORM = 1e-4, 1e5
_TENSOR = "speaker_embedding"


def checked(values: object, field: str, dim: int | None = None) -> np.ndarray:
    """``values`` as a speaker embedding [dim] float32.

    Raises ``InvalidRequest`` for what is not one: not finite, of another size (``dim``), zero.
    """
    try:
        given = np.asarray(values)
        with np.errstate(over="ignore"):  # what does not fit becomes infinite and is refused
            vector = np.array(given, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        raise _refused(field, "it is no list of numbers") from None
    if given.dtype.kind not in "fiu":
        raise _refused(field, "it is no list of numbers")
    if vector.ndim != 1 or not 1 <= len(vector) <= MAX_DIM:
        raise _refused(field, f"its shape is {list(vector.shape)} and must be [{dim or 'dim'}]")
    if dim is not None and len(vector) != dim:
        raise _refused(field, f"it has {len(vector)} numbers and the open model takes {dim}")
    if not np.isfinite(vector).all():
        raise _refused(field, "it holds values that are no finite numbers")
    norm = float(np.linalg.norm(vector.astype(np.float64)))
    if not MIN_NORM <= norm <= MAX_NORM:
        raise _refused(field, f"its length {norm:.3g} is not within {MIN_NORM:g} and {MAX_NORM:g}")
    return vector


def to_bytes(vector: np.ndarray) -> bytes:
    """An embedding [dim] float32 as a safetensors file."""
    return save({_TENSOR: np.ascontiguousarray(vector, dtype=np.float32)})


def from_bytes(data: bytes, field: str) -> np.ndarray:
    """The embedding in a safetensors file from anywhere; raises ``InvalidRequest``."""
    if len(data) > MAX_BYTES:
        raise _refused(field, f"it has {len(data)} bytes and the limit is {MAX_BYTES}")
    try:
        tensors = load(data)
    except (SafetensorError, ValueError, TypeError, KeyError, OverflowError):
        raise _refused(field, "it is no safetensors file") from None
    if list(tensors) != [_TENSOR]:
        raise _refused(field, f"it must hold one tensor, {_TENSOR!r}")
    if tensors[_TENSOR].dtype != np.float32:
        raise _refused(field, f"its numbers are {tensors[_TENSOR].dtype} and must be float32")
    return checked(tensors[_TENSOR], field)


def _refused(field: str, reason: str) -> InvalidRequest:
    return InvalidRequest(
        f"{field} cannot be used: {reason}; send an embedding that this studio gave out, or a"
        " recording.",
        field=field,
        code="invalid_embedding",
    )
