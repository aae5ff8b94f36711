"""A speaker embedding in a NumPy file, as Zyphra's clients send it: read without trusting it.

One vector [dim], or rows [n, dim] that are averaged; of a .npz file the array ``emb``, or its only
one. Pickled objects are refused; nothing is allocated that the file does not hold.
"""

from __future__ import annotations

import io
import zipfile
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from engine import InvalidRequest
from studio.media.base64_text import Base64Error, decoded_pieces
from studio.vectors import checked

# 256 rows of 8192 numbers; more than any encoder makes of one speaker.
MAX_BYTES = 8 << 20


def read_embedding(sent: str | bytes, field: str) -> np.ndarray:
    """The embedding [dim] float32 in base64 text or in the bytes of a file.

    Raises ``InvalidRequest`` naming ``field``.
    """
    data = sent if isinstance(sent, bytes) else _decoded(sent, field)
    if len(data) > MAX_BYTES:
        raise _refused(field, f"it is larger than {MAX_BYTES >> 20} MB")
    try:
        if data[:4] == b"PK\x03\x04":
            data = _only_array(data, field)
        array = _array(data, field)
    except InvalidRequest:
        raise
    except Exception as error:  # a damaged file makes its readers raise nearly anything
        raise _refused(field, "it is no .npy or .npz file") from error
    if array.ndim == 2 and len(array) and array.dtype.kind in "fiu":
        array = array.astype(np.float64).mean(0)
    return checked(array, field)


def _decoded(text: str, field: str) -> bytes:
    data = bytearray()
    try:
        for piece in decoded_pieces(text):
            data += piece
            if len(data) > MAX_BYTES:
                break
    except Base64Error as error:
        raise _refused(field, str(error)) from None
    return bytes(data)


def _only_array(data: bytes, field: str) -> bytes:
    """The bytes of the .npy file within a .npz file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        if names != names[:1] and "emb.npy" not in names:
            raise _refused(field, "it holds several arrays and none is called emb")
        if not names:
            raise _refused(field, "it holds no array")
        with archive.open("emb.npy" if "emb.npy" in names else names[0]) as member:
            inner = member.read(MAX_BYTES + 1)
    if len(inner) > MAX_BYTES:
        raise _refused(field, f"its array is larger than {MAX_BYTES >> 20} MB")
    return inner


def _array(data: bytes, field: str) -> np.ndarray:
    file: BinaryIO = io.BytesIO(data)
    version = npy.read_magic(file)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read_header(file)
    if dtype.hasobject or dtype.kind not in "fiu":
        raise _refused(field, "it holds no numbers")
    num_values = 1
    for size in shape:  # of Python ints: their product cannot overflow
        num_values *= size
    if num_values * dtype.itemsize != len(data) - file.tell():
        raise _refused(field, "its length is not what its head says")
    return np.load(io.BytesIO(data), allow_pickle=False)


def _refused(field: str, reason: str) -> InvalidRequest:
    return InvalidRequest(
        f"{field} cannot be used: {reason}; send base64 of a .npy file with one embedding, or of"
        " rows to be averaged.",
        field=field,
        code="invalid_embedding",
    )
