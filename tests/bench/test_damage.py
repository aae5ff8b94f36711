"""Each damage does what its name says, or the table of the watermark would be about nothing."""

import numpy as np
import pytest

from bench.damage import DAMAGES
from bench.watermark import table

RATE_HZ = 44_100
TONE = (0.4 * np.sin(2 * np.pi * 440 * np.arange(3 * RATE_HZ) / RATE_HZ)).astype(np.float32)


def pitch_hz(samples, rate_hz):
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples)), 1 << 18))
    return spectrum.argmax() * rate_hz / (1 << 18)


@pytest.mark.parametrize(
    ("name", "duration_s", "tone_hz", "rms"),
    [
        ("none", 3.0, 440, 0.283),
        ("first 2 s only", 2.0, 440, 0.283),
        ("trimmed by 0.37 and 0.41 s", 2.22, 440, 0.283),
        ("MP3 64 kbit/s", 3.0, 440, 0.28),
        ("Opus 24 kbit/s", 3.0, 440, 0.28),
        ("16 kHz", 3.0, 440, 0.283),
        ("+6 dB", 3.0, 440, 0.566),
        ("-6 dB", 3.0, 440, 0.142),
        ("speed 0.95 with pitch", 3.158, 418, 0.283),
        ("speed 1.05 with pitch", 2.857, 462, 0.283),
        ("speed 1.05, pitch kept", 2.857, 440, 0.28),
    ],
)
def test_a_tone_comes_out_as_the_name_says(name, duration_s, tone_hz, rms):
    samples, rate_hz = DAMAGES[name](TONE, RATE_HZ)
    assert len(samples) / rate_hz == pytest.approx(duration_s, abs=0.06)
    assert pitch_hz(samples, rate_hz) == pytest.approx(tone_hz, rel=0.002)
    assert np.sqrt(np.square(samples).mean()) == pytest.approx(rms, rel=0.08)


def test_noise_is_as_far_below_as_it_says():
    samples, _ = DAMAGES["noise 20 dB below"](TONE, RATE_HZ)
    noise = samples - TONE
    assert 10 * np.log10(np.square(TONE).mean() / np.square(noise).mean()) == pytest.approx(
        20, abs=0.1
    )


def test_the_table_has_a_row_for_each_damage():
    row = dict.fromkeys(
        ("found_percent", "confidence_min", "confidence_median", "false_alarms", "unmarked"), 1
    )
    lines = table(dict.fromkeys(DAMAGES, row | {"unmarked_confidence_max": 0.2})).splitlines()
    assert len(lines) == 2 + len(DAMAGES)
