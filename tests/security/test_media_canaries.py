"""Playlists, scripts and references disguised as audio read no file and visit no server.

Each attack is first run on an unguarded FFmpeg where it works there, so that a test that passes is
one that could fail.
"""

import struct
import subprocess
from pathlib import Path

import pytest

from engine import InvalidReference, InvalidRequest
from studio.media.decode import DecodeError, decode, ffmpeg_path
from studio.media.intake import read_bytes, read_file
from studio.media.limits import Limits

RATE_HZ = 24000

SCRIPTS = {
    "concat": "ffconcat version 1.0\nfile {file}\n",
    "concat http": "ffconcat version 1.0\nfile {url}\n",
    "hls file": "#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:4,\n{file}\n#EXT-X-ENDLIST\n",
    "hls http": "#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:4,\n{url}.ts\n#EXT-X-ENDLIST\n",
    "hls key": '#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="{url}"\n#EXTINF:4,\n{file}\n',
    "hls concat": "#EXTM3U\n#EXTINF:4,\nconcat:{url}|file:{file}\n#EXT-X-ENDLIST\n",
    "m3u": "{file}\n{url}\n",
    "pls": "[playlist]\nFile1={url}\nFile2={file}\nNumberOfEntries=2\n",
    "asx": '<asx version="3.0"><entry><ref href="{url}"/></entry></asx>',
    "dash": '<?xml version="1.0"?><MPD><Period><BaseURL>{url}</BaseURL></Period></MPD>',
    "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=audio {port} RTP/AVP 0\n",
    "svg": '<svg xmlns="http://www.w3.org/2000/svg"><image href="{url}"/></svg>',
    "rtsp text": "RTSPtext\nrtsp://127.0.0.1:{port}/\n",
}
DISGUISES = {
    "bare": b"",
    "as wav": b"RIFF\xff\xff\xff\xffWAVE",
    "as mp3": b"ID3\x04\0\0\0\0\0\0",
    "as ogg": b"OggS\0\x02",
    "as mov": b"\0\0\0\x08free",
    "as matroska": b"\x1a\x45\xdf\xa3",
}


@pytest.fixture
def canary_file(audio: Path, tmp_path: Path) -> Path:
    """A recording in the folder that attacks try to read, beside them."""
    path = tmp_path / "canary.wav"
    path.write_bytes((audio / "ref_control_16k_mono.wav").read_bytes())
    return path


def unguarded(path: Path, *options: str) -> bytes:
    """What FFmpeg with its own defaults makes of a file."""
    command = [ffmpeg_path(), "-v", "error", *options, "-i", str(path), "-f", "s16le", "-"]
    return subprocess.run(command, capture_output=True, cwd=path.parent, timeout=120).stdout


def test_an_unguarded_decoder_reads_the_neighbour_and_ours_does_not(
    canary_file: Path, tmp_path: Path
) -> None:
    attack = tmp_path / "attack.wav"
    attack.write_text(SCRIPTS["concat"].format(file=canary_file.name))
    assert len(unguarded(attack)) == 146_804  # the neighbour's sound
    with pytest.raises(InvalidReference, match="accepted format"):
        read_file(attack, sample_rate_hz=RATE_HZ)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_in_any_disguise_reads_nothing(
    script: str, canary_file: Path, canary_server, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{canary_server.port}/canary"
    text = SCRIPTS[script].format(file=canary_file, url=url, port=canary_server.port)
    for head in DISGUISES.values():
        attack = tmp_path / "attack.wav"
        attack.write_bytes(head + text.encode())
        with pytest.raises(InvalidReference) as refused:
            read_file(attack, sample_rate_hz=RATE_HZ)
        assert "canary" not in refused.value.message
    assert canary_server.visits == []


@pytest.mark.parametrize("demuxer", ["concat", "hls", "sdp", "dash"])
@pytest.mark.parametrize("script", ["concat", "concat http", "hls file", "hls http", "sdp"])
def test_even_a_demuxer_that_follows_references_gets_nowhere_in_the_child(
    demuxer: str, script: str, canary_file: Path, canary_server, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{canary_server.port}/canary"
    attack = tmp_path / "attack.wav"
    attack.write_text(SCRIPTS[script].format(file=canary_file, url=url, port=canary_server.port))
    with attack.open("rb") as file, pytest.raises(DecodeError):
        decode(file, demuxer, RATE_HZ, Limits(wall_s=5))
    assert canary_server.visits == []


def with_alias(movie: bytes, path: Path) -> bytes:
    """Make a QuickTime movie's sound lie in another file, named by its absolute path."""
    name, target = path.name.encode(), str(path).encode()
    target += bytes(len(target) % 2)
    record = bytes(10) + bytes(28) + bytes(12) + bytes([len(name)]) + name.ljust(63, b"\0")
    record += bytes(16) + struct.pack(">HH", 1, 1) + bytes(16)
    record += struct.pack(">HH", 2, len(target)) + target + struct.pack(">HH", 0xFFFF, 0)
    entry = struct.pack(">I4sI", 12 + len(record), b"alis", 0) + record
    at = movie.index(b"url ", movie.index(b"dref")) - 4
    changed = bytearray(movie[:at] + entry + movie[at + 12 :])
    for box in (b"moov", b"trak", b"mdia", b"minf", b"dinf", b"dref"):
        start = changed.rindex(box, 0, at) - 4
        (size,) = struct.unpack_from(">I", changed, start)
        struct.pack_into(">I", changed, start, size + len(entry) - 12)
    return bytes(changed)


def test_a_movie_whose_sound_lies_in_another_file_is_not_given_it(
    canary_file: Path, tmp_path: Path
) -> None:
    movie = tmp_path / "movie.mov"
    make = [ffmpeg_path(), "-v", "error", "-i", str(canary_file), "-c:a", "pcm_s16le", str(movie)]
    subprocess.run(make, check=True)
    read_file(movie, sample_rate_hz=RATE_HZ)
    attack = tmp_path / "attack.mov"
    attack.write_bytes(with_alias(movie.read_bytes(), canary_file))
    followed = unguarded(attack, "-enable_drefs", "1", "-use_absolute_path", "1")
    assert len(followed) > 100_000  # the attack works where references are followed
    with pytest.raises(InvalidReference):
        read_file(attack, sample_rate_hz=RATE_HZ)


@pytest.mark.parametrize(
    "options",
    [
        ("-c:a", "libmp3lame", "-b:a", "8k", "-write_xing", "0", "-f", "mp3"),
        ("-c:a", "aac", "-b:a", "8k", "-f", "adts"),
        ("-c:a", "libopus", "-b:a", "6k", "-compression_level", "0", "-f", "ogg"),
        (
            "-c:a",
            "libopus",
            "-b:a",
            "6k",
            "-compression_level",
            "0",
            "-live",
            "1",
            "-f",
            "matroska",
        ),
    ],
    ids=["mp3", "aac", "opus", "live webm"],
)
def test_silence_that_grows_a_hundredfold_is_refused_in_time(options: tuple[str, ...]) -> None:
    source = ["-f", "lavfi", "-i", "anullsrc=r=8000:cl=mono", "-t", "610"]
    make = [ffmpeg_path(), "-v", "error", *source, *options, "-"]
    bomb = subprocess.run(make, capture_output=True, check=True).stdout
    assert len(bomb) < 1_000_000  # 58 MB when decoded
    with pytest.raises(InvalidRequest) as refused:
        # In time of the processor: how long that lasts on the clock, a busy machine decides.
        read_bytes(bomb, sample_rate_hz=RATE_HZ, limits=Limits(cpu_s=5, wall_s=120))
    assert "longer than 600 s" in refused.value.message
