"""Every option of the studio, written once: flag, environment variable, default, limits, help.

- The flag of ``max_waiting`` is ``--max-waiting``, its variable ``STUDIO_MAX_WAITING``; a flag wins
  over the variable, the variable over the default.
- A wrong value is an ``InvalidRequest``: one sentence naming the option, the value and the remedy.
- What a log may not hold (paths of the machine) is masked when settings are printed.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from engine import MAX_TEXT_CHARS, InvalidRequest, default_grammar_folder

_YES, _NO = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("give a value that is not empty")
    return text.strip()


def _whole(minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text) or not minimum <= int(text) <= maximum:
            raise ValueError(f"give a whole number from {minimum} to {maximum}")
        return int(text)

    return parse


def _one_of(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in names:
            raise ValueError(f"choose one of {', '.join(names)}")
        return text.lower()

    return parse


def _switch(text: str) -> bool:
    if text.lower() not in _YES | _NO:
        raise ValueError("give true or false")
    return text.lower() in _YES


def _device(text: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,2})?", text):
        raise ValueError("choose auto, cpu, cuda or cuda:N")
    return text


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise ValueError("give a folder that exists")
    return Path(text).resolve()


def _new_folder(text: str) -> Path:
    path = Path(text).expanduser().absolute()
    if path.exists() and not path.is_dir():
        raise ValueError("give a folder, or a name for a new one")
    return path


def _file(text: str) -> Path:
    if not Path(text).is_file():
        raise ValueError("give a file that exists")
    return Path(text).resolve()


def _api_key(text: str) -> str:
    # A short key can be guessed, a blank cannot be sent in a header.
    if not re.fullmatch(r"[\x21-\x7e]{16,256}", text):
        raise ValueError("give 16 to 256 visible ASCII characters")
    return text


def _origin(text: str) -> str:
    if text != "*" and not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?", text):
        raise ValueError("give an origin such as https://app.example, or *")
    return text.lower()


def _media_host(text: str) -> str:
    if not re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):\d{1,5}", text):
        raise ValueError("give HOST:PORT, for example 127.0.0.1:9000")
    return text.lower()


def _stock_voice(text: str) -> tuple[str, str]:
    stock, equals, voice = text.partition("=")
    if not equals or not stock.strip() or not voice.strip():
        raise ValueError("give NAME=VOICE, for example alloy=heart")
    return stock.strip().lower(), voice.strip()


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
        None, _text, "checkpoint folder or hub repository; the embedded one if left out"
    )
    device: str = _option("auto", _device, "auto, cpu, cuda or cuda:N; auto takes a GPU if any")
    dtype: str = _option(
        "auto",
        _one_of("auto", "float32", "bfloat16", "float16", "int8", "float8_e4m3fn"),
        "of the weights, int8 and float8_e4m3fn of the experts alone; auto takes what fits",
    )
    emotion_directions: Path | None = _option(  # noqa: RUF009 -- it is a field
        None,
        _folder,
        "folder of emotion directions; the checkpoint's own if left out",
        metavar="FOLDER",
        is_masked=True,
    )
    slots: int = _option(8, _whole(1, 256), "requests that are spoken at the same time")
    max_waiting: int = _option(64, _whole(1, 10_000), "requests that may wait for a slot")
    max_waiting_per_owner: int = _option(
        16, _whole(1, 10_000), "how many of the waiting ones may come from one address"
    )
    host: str = _option("127.0.0.1", _text, "address to listen on")
    port: int = _option(7860, _whole(0, 65_535), "port to listen on; 0 takes any free one")
    public: bool = _option(False, _switch, "the studio faces strangers: recordings by URL are off")
    media_root: Path | None = _option(  # noqa: RUF009 -- it is a field
        None,
        _folder,
        "folder whose files may be named as references; off if left out",
        metavar="FOLDER",
        is_masked=True,
    )
    allow_media_host: tuple[str, ...] = _option(
        (),
        _media_host,
        "HOST:PORT that recordings may also be fetched from",
        metavar="HOST:PORT",
        repeats=True,
    )
    stock_voice: tuple[tuple[str, str], ...] = _option(
        (),
        _stock_voice,
        "NAME=VOICE: the voice behind a stock name such as alloy, else the default voice",
        metavar="NAME=VOICE",
        repeats=True,
    )
    max_input_chars: int = _option(
        MAX_TEXT_CHARS, _whole(1, MAX_TEXT_CHARS), "longest text of a request, in characters"
    )
    strict_model: bool = _option(
        False, _switch, "an unknown model in a request is refused; else it is noted and ignored"
    )
    data: Path | None = _option(  # noqa: RUF009 -- it is a field
        None,
        _new_folder,
        "folder of voices and takes; your own data folder if left out",
        metavar="FOLDER",
        is_masked=True,
    )
    grammars: Path | None = _option(  # noqa: RUF009 -- it is a field
        None,
        _new_folder,
        "folder of the grammars that read numbers; your own cache if left out",
        metavar="FOLDER",
        is_masked=True,
    )
    max_voices: int = _option(200, _whole(0, 10_000), "voices that one owner may store")
    max_takes: int = _option(
        200, _whole(0, 10_000), "takes kept per owner, the oldest go first; 0 keeps none"
    )
    takes_days: int = _option(30, _whole(1, 3650), "days that a take is kept")
    takes_mb: int = _option(1000, _whole(1, 1_000_000), "megabytes of takes kept per owner")
    require_consent: bool = _option(
        False, _switch, "every recording, also one for a single request, needs a statement of right"
    )
    no_watermark: bool = _option(False, _switch, "leave the inaudible watermark out of the sound")
    no_metadata: bool = _option(False, _switch, "leave the words that say how a file was made out")
    c2pa_certificate: Path | None = _option(  # noqa: RUF009 -- it is a field
        None,
        _file,
        "certificate chain (PEM) that signs finished files; needs --c2pa-key",
        metavar="FILE",
        is_masked=True,
    )
    c2pa_key: Path | None = _option(  # noqa: RUF009 -- it is a field
        None, _file, "private key (PEM) of that certificate", metavar="FILE", is_masked=True
    )
    api_key: tuple[str, ...] = _option(
        (),
        _api_key,
        "a key that callers of the routes must show; open to all if left out",
        metavar="KEY",
        repeats=True,
        is_masked=True,
    )
    cors_origin: tuple[str, ...] = _option(
        (),
        _origin,
        "origin whose pages may call the routes from a browser, or *",
        metavar="ORIGIN",
        repeats=True,
    )
    drain_s: int = _option(25, _whole(0, 3600), "seconds that a stop waits for running requests")
    log_level: str = _option(
        "info", _one_of("debug", "info", "warning", "error"), "debug, info, warning or error"
    )

    @property
    def allows_urls(self) -> bool:
        """Whether references may be fetched from public addresses: only while nobody else calls."""
        return not self.public and _is_loopback(self.host)

    @property
    def is_personal(self) -> bool:
        """Whether whoever reaches the studio is its one user: no strangers, no keys, no network."""
        return not self.public and not self.api_key and _is_loopback(self.host)

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


MODEL_OPTIONS = ("model", "device", "dtype", "emotion_directions", "slots")


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
        if details["parse"] is _switch:
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
    values: dict[str, Any] = {}
    for spec in fields(Settings):
        given = getattr(flags, spec.name, None)
        name = _flag(spec)
        if given is None:
            given, name = environment.get(_variable(spec)) or None, _variable(spec)
        if given is None:
            continue
        if spec.metadata["repeats"]:
            texts = given.split(",") if isinstance(given, str) else given
            values[spec.name] = tuple(_parsed(spec, name, text.strip()) for text in texts)
        else:
            values[spec.name] = _parsed(spec, name, given)
    return Settings(**values)


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


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
