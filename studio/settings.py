"""Every option of the studio, written once: flag, environment variable, default, limits, help.

- The flag of ``max_waiting`` is ``--max-waiting``, its variable ``STUDIO_MAX_WAITING``; a flag wins
  over the variable, the variable over the default.
- A wrong value is an ``InvalidRequest``: one sentence naming the option, the value and the remedy.
- What a log may not hold (paths of the machine) is masked when settings are printed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from engine import MAX_TEXT_CHARS, PREFILL_ROWS, InvalidRequest, default_grammar_folder
from studio import option_values as values
from studio.option_values import is_loopback

# What holds on a Hugging Face Space unless it is said otherwise: strangers come, by its proxies.
SPACE_DEFAULTS = {"STUDIO_PUBLIC": "true", "STUDIO_TRUSTED_PROXY": "10.0.0.0/8"}
# What one owner may have of a studio that faces strangers, unless it is said otherwise.
PUBLIC_REQUESTS, PUBLIC_MINUTES = 8, 60


def _option(
    default: Any,
    parse: Callable[[str], Any],
    help: str,
    *,
    metavar: str | None = None,
    repeats: bool = False,
    is_masked: bool = False,
) -> Any:
    metadata = {
        "parse": parse,
        "help": help,
        "metavar": metavar,
        "repeats": repeats,
        "is_masked": is_masked,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Settings:
    """The options in force; made by ``read_settings``."""

    model: str | None = _option(
        None,
        values.text,
        "checkpoint folder, GGUF file or hub repository; the embedded one if left out",
    )
    device: str = _option(
        "auto", values.device, "auto, cpu, cuda or cuda:N; auto takes a GPU if any"
    )
    codec_device: str | None = _option(
        None,
        values.codec_device,
        "where codes become sound: cpu, cuda or cuda:N; the device of the model if left out",
        metavar="DEVICE",
    )
    dtype: str = _option(
        "auto",
        values.one_of("auto", "float32", "bfloat16", "float16", "int8", "float8_e4m3fn"),
        "of the weights, int8 and float8_e4m3fn of the experts alone; auto takes what fits",
    )
    emotion_directions: Path | None = _option(  # noqa: RUF009 -- it is a field
        None,
        values.folder,
        "folder of emotion directions; the checkpoint's own if left out",
        metavar="FOLDER",
        is_masked=True,
    )
    slots: int = _option(8, values.whole(1, 256), "requests that are spoken at the same time")
    prefill_rows: int | None = _option(
        None,
        values.whole(1, 1_000_000),
        "prompt rows computed between two decode steps, so that many who come at once do not"
        f" interrupt those who listen; {PREFILL_ROWS['cpu']} on a CPU, {PREFILL_ROWS['cuda']} on a"
        " GPU",
        metavar="N",
    )
    first_chunk_frames: int | None = _option(
        None,
        values.whole(1, 1000),
        "frames of the first chunk of sound, the fewer the sooner; 0.16 s if left out",
        metavar="N",
    )
    chunk_frames: int | None = _option(
        None,
        values.whole(1, 1000),
        "most frames of a later chunk: each is twice as long as the one before, up to this; 1 s if"
        " left out",
        metavar="N",
    )
    max_waiting: int = _option(64, values.whole(1, 10_000), "requests that may wait for a slot")
    max_waiting_per_owner: int = _option(
        16, values.whole(1, 10_000), "how many of the waiting ones may come from one address"
    )
    max_requests_per_owner: int | None = _option(
        None,
        values.whole(0, 10_000),
        "requests of one key or address at once, spoken or waiting; 0 has no such limit,"
        f" {PUBLIC_REQUESTS} with --public",
        metavar="N",
    )
    minutes_per_owner: int | None = _option(
        None,
        values.whole(0, 100_000),
        "minutes of speech that one key or address may have in an hour; 0 has no such limit,"
        f" {PUBLIC_MINUTES} with --public",
        metavar="N",
    )
    unload_after: int = _option(
        0,
        values.whole(0, 1_000_000),
        "seconds without a request after which the model leaves the memory; 0 keeps it there",
    )
    host: str = _option("127.0.0.1", values.text, "address to listen on")
    port: int = _option(7860, values.whole(0, 65_535), "port to listen on; 0 takes any free one")
    public: bool = _option(
        False, values.switch, "the studio faces strangers: recordings by URL are off"
    )
    media_root: Path | None = _option(  # noqa: RUF009 -- it is a field
        None,
        values.folder,
        "folder whose files may be named as references; off if left out",
        metavar="FOLDER",
        is_masked=True,
    )
    allow_media_host: tuple[str, ...] = _option(
        (),
        values.media_host,
        "HOST:PORT that recordings may also be fetched from",
        metavar="HOST:PORT",
        repeats=True,
    )
    stock_voice: tuple[tuple[str, str], ...] = _option(
        (),
        values.stock_voice,
        "NAME=VOICE: the voice behind a stock name such as alloy, else the default voice",
        metavar="NAME=VOICE",
        repeats=True,
    )
    max_input_chars: int = _option(
        MAX_TEXT_CHARS, values.whole(1, MAX_TEXT_CHARS), "longest text of a request, in characters"
    )
    strict_model: bool = _option(
        False,
        values.switch,
        "an unknown model in a request is refused; else it is noted and ignored",
    )
    data: Path | None = _option(  # noqa: RUF009 -- it is a field
        None,
        values.new_folder,
        "folder of voices and takes; your own data folder if left out",
        metavar="FOLDER",
        is_masked=True,
    )
    grammars: Path | None = _option(  # noqa: RUF009 -- it is a field
        None,
        values.new_folder,
        "folder of the grammars that read numbers; your own cache if left out",
        metavar="FOLDER",
        is_masked=True,
    )
    max_voices: int = _option(200, values.whole(0, 10_000), "voices that one owner may store")
    max_takes: int = _option(
        200, values.whole(0, 10_000), "takes kept per owner, the oldest go first; 0 keeps none"
    )
    takes_days: int = _option(30, values.whole(1, 3650), "days that a take is kept")
    takes_mb: int = _option(1000, values.whole(1, 1_000_000), "megabytes of takes kept per owner")
    require_consent: bool = _option(
        False,
        values.switch,
        "every recording, also one for a single request, needs a statement of right",
    )
    no_watermark: bool = _option(
        False, values.switch, "leave the inaudible watermark out of the sound"
    )
    no_metadata: bool = _option(
        False, values.switch, "leave the words that say how a file was made out"
    )
    c2pa_certificate: Path | None = _option(  # noqa: RUF009 -- it is a field
        None,
        values.file,
        "certificate chain (PEM) that signs finished files; needs --c2pa-key",
        metavar="FILE",
        is_masked=True,
    )
    c2pa_key: Path | None = _option(  # noqa: RUF009 -- it is a field
        None, values.file, "private key (PEM) of that certificate", metavar="FILE", is_masked=True
    )
    api_key: tuple[str, ...] = _option(
        (),
        values.api_key,
        "a key that callers of the routes must show; open to all if left out",
        metavar="KEY",
        repeats=True,
        is_masked=True,
    )
    cors_origin: tuple[str, ...] = _option(
        (),
        values.origin,
        "origin whose pages may call the routes from a browser, or *",
        metavar="ORIGIN",
        repeats=True,
    )
    trusted_proxy: tuple[str, ...] = _option(
        (),
        values.network,
        "address or network of a proxy whose X-Forwarded-... headers count; none do if left out",
        metavar="NETWORK",
        repeats=True,
    )
    frame_origin: tuple[str, ...] = _option(
        (),
        values.origin,
        "origin whose pages may show the studio in a frame, or *; with --public huggingface.co may",
        metavar="ORIGIN",
        repeats=True,
    )
    drain_s: int = _option(
        25, values.whole(0, 3600), "seconds that a stop waits for running requests"
    )
    log_level: str = _option(
        "info", values.one_of("debug", "info", "warning", "error"), "debug, info, warning or error"
    )

    log_format: str = _option(
        "text",
        values.one_of("text", "json"),
        "text, or json: one object a line, for log collectors",
    )

    @property
    def allows_urls(self) -> bool:
        """Whether references may be fetched from public addresses: only while nobody else calls."""
        return not self.public and is_loopback(self.host)

    @property
    def is_personal(self) -> bool:
        """Whether whoever reaches the studio is its one user: no strangers, no keys, no network."""
        return not (self.public or self.api_key or self.trusted_proxy) and is_loopback(self.host)

    @property
    def is_exposed(self) -> bool:
        """Whether a network reaches it and nobody has said that strangers may use it."""
        return not (self.public or self.api_key or is_loopback(self.host))

    @property
    def max_requests(self) -> int:
        """How many requests an owner may have at once; 0 without a limit."""
        given = self.max_requests_per_owner
        return (PUBLIC_REQUESTS if self.public else 0) if given is None else given

    @property
    def max_audio_s_per_hour(self) -> int:
        """How much speech an owner may have in an hour, in seconds; 0 without a limit."""
        given = self.minutes_per_owner
        return 60 * ((PUBLIC_MINUTES if self.public else 0) if given is None else given)

    @property
    def data_folder(self) -> Path:
        """Where voices and takes are kept."""
        if self.data is not None:
            return self.data
        home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        return Path(home) / "zonos2-studio"

    @property
    def grammar_folder(self) -> Path:
        """Where the grammars are that read numbers."""
        return default_grammar_folder() if self.grammars is None else self.grammars

    def __str__(self) -> str:
        """The options that differ from their defaults, masked, for the log."""
        shown = []
        for spec in fields(self):
            value = getattr(self, spec.name)
            if value != spec.default:
                shown.append(f"{spec.name}={'set' if spec.metadata['is_masked'] else value}")
        return ", ".join(shown) or "defaults"


MODEL_OPTIONS = ("model", "device", "codec_device", "dtype", "emotion_directions", "slots")


def add_options(parser: argparse.ArgumentParser, names: Iterable[str] | None = None) -> None:
    """Add the flags of ``names`` (all of them if None) to a command-line parser, unparsed."""
    for spec in fields(Settings):
        if names is not None and spec.name not in names:
            continue
        details = spec.metadata
        default = "" if spec.default in (None, (), False) else f"default {spec.default}; "
        keywords: dict[str, Any] = {
            "help": f"{details['help']} ({default}{_variable(spec)})",
            "default": None,
        }
        if details["parse"] is values.switch:
            keywords |= {"action": "store_const", "const": "true"}
        else:
            usual = "N" if isinstance(spec.default, int) else spec.name.upper()
            keywords |= {
                "metavar": details["metavar"] or usual,
                "action": "append" if details["repeats"] else "store",
            }
        parser.add_argument(_flag(spec), **keywords)


def read_settings(flags: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    """The settings in force; raises ``InvalidRequest`` for a value that cannot be used."""
    read: dict[str, Any] = {}
    if environment.get("SPACE_ID"):
        environment = SPACE_DEFAULTS | {n: text for n, text in environment.items() if text}
    for spec in fields(Settings):
        given = getattr(flags, spec.name, None)
        name = _flag(spec)
        if given is None:
            given, name = environment.get(_variable(spec)) or None, _variable(spec)
        if given is None:
            continue
        if spec.metadata["repeats"]:
            texts = given.split(",") if isinstance(given, str) else given
            read[spec.name] = tuple(_parsed(spec, name, text.strip()) for text in texts)
        else:
            read[spec.name] = _parsed(spec, name, given)
    return Settings(**read)


def _parsed(spec: Field[Any], name: str, text: str) -> Any:
    try:
        return spec.metadata["parse"](text)
    except ValueError as error:
        raise InvalidRequest(
            f"{name}: {text[:80]!r} is not allowed; {error}.", field=spec.name
        ) from None


def _flag(spec: Field[Any]) -> str:
    return "--" + spec.name.replace("_", "-")


def _variable(spec: Field[Any]) -> str:
    return "STUDIO_" + spec.name.upper()
