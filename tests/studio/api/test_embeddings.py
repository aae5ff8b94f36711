"""Speaker embeddings in NumPy files, as strangers may write them."""

import base64
import io
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import InvalidRequest
from studio.api.embeddings import MAX_BYTES, read_embedding

VECTOR = np.linspace(-1, 1, 16, dtype=np.float32)


def npy(array) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def npz(**arrays) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("emb.npy", npy(np.zeros(4, np.float32)) + bytes(MAX_BYTES))
    return file.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        npy(VECTOR),
        npy(VECTOR.astype(np.float64)),
        npy(VECTOR[None]),
        npy(np.stack([VECTOR + 1, VECTOR - 1])),
        npz(emb=VECTOR, other=VECTOR[:3]),
        npz(anything=VECTOR),
    ],
)
def test_one_vector_or_rows_are_read(data):
    for sent in (data, base64.b64encode(data).decode()):
        read = read_embedding(sent, "voice_file")
        assert read.dtype == np.float32
        np.testing.assert_allclose(read, VECTOR, atol=1e-6)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no .npy"),
        (b"RIFF", "no .npy"),
        (b"PK\x03\x04", "no .npy"),
        (npy(VECTOR)[:-4], "what its head says"),
        (npy(VECTOR) + b"more", "what its head says"),
        (npy(VECTOR).replace(b"(16,), ", b"(9**9,)"), "no .npy"),
        (npy(np.zeros((1, 1), np.float32)).replace(b"(1, 1)", b"(((((("), "no .npy"),
        (npy(np.array([{"a": 1}], dtype=object)), "no numbers"),
        (npy(np.array(["1.0"])), "no numbers"),
        (npy(np.array([1 + 2j])), "no numbers"),
        (pickle.dumps(VECTOR), "no .npy"),
        (npz(a=VECTOR, b=VECTOR), "none is called emb"),
        (npz(), "no .npy"),
        (bomb(), "larger than 8 MB"),
        (bytes(MAX_BYTES + 1), "larger than 8 MB"),
        (npy(np.zeros(16, np.float32)), "length"),
        (npy(np.full(16, np.nan)), "finite"),
        (npy(np.zeros((2, 2, 2), np.float32)), "shape"),
        (npy(np.zeros((0, 16), np.float32)), "shape"),
    ],
)
def test_what_is_none_is_refused_by_name(data, says):
    with pytest.raises(InvalidRequest) as caught:
        read_embedding(data, "voice_file")
    assert caught.value.field == "voice_file" and caught.value.code == "invalid_embedding"
    assert says in caught.value.message


def test_text_that_is_no_base64_is_refused():
    with pytest.raises(InvalidRequest, match="base64"):
        read_embedding("?!", "voice_file")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 140), st.booleans())
def test_damage_is_a_refusal_and_never_a_fault(noise, at, is_zip):
    whole = npz(emb=VECTOR) if is_zip else npy(VECTOR)
    damaged = whole[:at] + noise + whole[at + len(noise) :]
    try:
        read = read_embedding(damaged, "voice_file")
    except InvalidRequest:
        return
    assert read.ndim == 1 and np.isfinite(read).all()
