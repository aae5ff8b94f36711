"""Base64 in every form that programs send it."""

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studio.media.base64_text import Base64Error, decoded_pieces

EDGES = (0, 1, 2, 3, 196_607, 196_608, 196_609, 500_000)


def decoded(text: str) -> bytes:
    return b"".join(decoded_pieces(text))


@given(
    data=st.binary(max_size=300),
    is_url_safe=st.booleans(),
    is_padded=st.booleans(),
    line_length=st.sampled_from((0, 1, 3, 64, 76)),
    line_end=st.sampled_from(("\n", "\r\n", " \t")),
    head=st.sampled_from(
        (
            "",
            "data:;base64,",
            "data:audio/wav;base64,",
            "data:audio/webm;codecs=opus;base64,",
            "DATA:application/octet-stream;BASE64,",
            " data:audio/mpeg; base64,",
        )
    ),
)
def test_every_spelling_of_the_same_bytes_decodes_to_them(
    data: bytes, is_url_safe: bool, is_padded: bool, line_length: int, line_end: str, head: str
) -> None:
    encode = base64.urlsafe_b64encode if is_url_safe else base64.b64encode
    text = encode(data).decode()
    if not is_padded:
        text = text.rstrip("=")
    if line_length:
        text = line_end.join(re.findall(f".{{1,{line_length}}}", text)) + line_end
    assert decoded(head + text) == data


@pytest.mark.parametrize("size", EDGES)
def test_pieces_join_without_a_seam(size: int) -> None:
    data = bytes(index * 7 % 251 for index in range(size))
    pieces = list(decoded_pieces(base64.encodebytes(data).decode()))
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) <= 196_608


@pytest.mark.parametrize(
    "text",
    [
        "!!!!",
        "A",
        "AAAAA",
        "AA=A",
        "AAA=AAAA",
        "AAAA====AAAA",
        "ÄÄÄÄ",
        "\ud800AAA",
        "AAAA\0AAA",
        "data:audio/wav,RIFF",
        "data:audio/wav",
        "data:audio/wav;base64",
        "data:" + "x" * 300 + ";base64,AAAA",
    ],
)
def test_what_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(Base64Error):
        decoded(text)


@given(st.text(max_size=60))
def test_any_text_decodes_or_is_refused(text: str) -> None:
    try:
        assert isinstance(decoded(text), bytes)
    except Base64Error as error:
        assert text not in str(error) or len(text) < 4  # the value is never echoed
