import io

import numpy as np
import pytest
import soundfile

from studio.media.pcm import to_int16, wav_header


def test_full_scale_is_32767_and_what_is_beyond_is_clipped():
    samples = np.array([0.0, 1.0, -1.0, 3.0, -3.0, 0.5 / 32767, 1.6 / 32767], np.float32)
    assert to_int16(samples).tolist() == [0, 32767, -32767, 32767, -32767, 0, 2]
    assert to_int16(samples).tobytes() == to_int16(samples).astype("<i2").tobytes()


def test_a_whole_file_is_read_back_by_libsndfile():
    samples = (np.sin(np.arange(4410) / 10) * 20_000).astype("<i2")
    file = wav_header(44_100, samples.nbytes) + samples.tobytes()
    read, rate_hz = soundfile.read(io.BytesIO(file), dtype="int16")
    assert rate_hz == 44_100
    np.testing.assert_array_equal(read, samples)
    assert int.from_bytes(file[4:8], "little") == len(file) - 8
    assert int.from_bytes(file[40:44], "little") == samples.nbytes


@pytest.mark.parametrize("size_bytes", [None, 2**32 - 8])
def test_an_unknown_or_too_large_size_is_left_open(size_bytes):
    header = wav_header(44_100, size_bytes)
    assert header[4:8] == header[40:44] == b"\xff" * 4
    assert len(header) == 44
