"""What an option's text may be: each function reads one kind, or says in words what to give."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path

_YES, _NO = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def text(text: str) -> str:
    if not text.strip():
        raise ValueError("give a value that is not empty")
    return text.strip()


def whole(minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text) or not minimum <= int(text) <= maximum:
            raise ValueError(f"give a whole number from {minimum} to {maximum}")
        return int(text)

    return parse


def one_of(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in names:
            raise ValueError(f"choose one of {', '.join(names)}")
        return text.lower()

    return parse


def switch(text: str) -> bool:
    if text.lower() not in _YES | _NO:
        raise ValueError("give true or false")
    return text.lower() in _YES


def device(text: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,2})?", text):
        raise ValueError("choose auto, cpu, cuda or cuda:N")
    return text


def codec_device(text: str) -> str:
    if not re.fullmatch(r"cpu|cuda(:\d{1,2})?", text):
        raise ValueError("choose cpu, cuda or cuda:N")
    return text


def folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise ValueError("give a folder that exists")
    return Path(text).resolve()


def new_folder(text: str) -> Path:
    path = Path(text).expanduser().absolute()
    if path.exists() and not path.is_dir():
        raise ValueError("give a folder, or a name for a new one")
    return path


def file(text: str) -> Path:
    if not Path(text).is_file():
        raise ValueError("give a file that exists")
    return Path(text).resolve()


def api_key(text: str) -> str:
    # A short key can be guessed, a blank cannot be sent in a header.
    if not re.fullmatch(r"[\x21-\x7e]{16,256}", text):
        raise ValueError("give 16 to 256 visible ASCII characters")
    return text


def origin(text: str) -> str:
    if text != "*" and not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?", text):
        raise ValueError("give an origin such as https://app.example, or *")
    return text.lower()


def media_host(text: str) -> str:
    if not re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):\d{1,5}", text):
        raise ValueError("give HOST:PORT, for example 127.0.0.1:9000")
    return text.lower()


def network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        raise ValueError("give an address or network such as 127.0.0.1 or 10.0.0.0/8") from None


def stock_voice(text: str) -> tuple[str, str]:
    stock, equals, voice = text.partition("=")
    if not equals or not stock.strip() or not voice.strip():
        raise ValueError("give NAME=VOICE, for example alloy=heart")
    return stock.strip().lower(), voice.strip()


def is_loopback(host: str) -> bool:
    """Whether an address, or localhost, is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
