"""A client that can send at once, read at any pace, and leave as rudely as it likes."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

SPEECH = "/v1/audio/speech"


@dataclass
class Call:
    """One request on a connection of its own, and what came back."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    sent_s: float = 0.0
    answered_s: float = 0.0
    chunks_s: list[float] = field(default_factory=list)  # when each piece of the body came

    @classmethod
    async def open(cls, address: str, receive_bytes: int | None = None) -> Call:
        parts = urlsplit(address)
        plain = socket.socket()
        if receive_bytes is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, (parts.hostname, parts.port))
        limit = receive_bytes or 1 << 16
        return cls(*await asyncio.open_connection(sock=plain, limit=limit))

    def send(self, method: str, path: str, body: dict[str, Any] | bytes | None = None) -> None:
        data = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        self.sent_s = time.monotonic()
        self.writer.write(head.encode() + data)

    async def head(self) -> Call:
        """Read up to the end of the headers."""
        line = await self.reader.readline()
        self.answered_s = time.monotonic()
        self.status = int(line.split()[1])
        while line := (await self.reader.readline()).strip():
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.lower()] = value.strip()
        return self

    async def piece(self) -> bytes:
        """The next piece of a chunked body, empty at its proper end."""
        size = int(await self.reader.readline(), 16)
        data = await self.reader.readexactly(size + 2)
        self.chunks_s.append(time.monotonic())
        return data[:-2]

    async def whole(self) -> Call:
        """Read to the end; raises ``IncompleteReadError`` or ``ValueError`` when it was cut."""
        await self.head()
        if "content-length" in self.headers:
            self.body = await self.reader.readexactly(int(self.headers["content-length"]))
        else:
            while data := await self.piece():
                self.body += data
        self.close()
        return self

    def leave(self) -> None:
        """Reset the connection: nobody says goodbye."""
        plain = self.writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def close(self) -> None:
        self.writer.close()


async def speak(address: str, **fields: Any) -> Call:
    """Ask for speech and read the answer to its end."""
    call = await Call.open(address)
    call.send("POST", SPEECH, fields)
    return await call.whole()


async def get(address: str, path: str) -> Any:
    """The JSON at ``path``."""
    call = await Call.open(address)
    call.send("GET", path)
    return json.loads((await call.whole()).body)


async def num_inside(address: str) -> int:
    """How many requests the engine holds."""
    told = await get(address, "/v1/audio/queue")
    return int(told["speaking"] + told["waiting"])


async def until_inside(address: str, number: int, limit_s: float = 30.0) -> float:
    """Wait until the engine holds so many requests, or fewer -> seconds it took."""
    begun_s = time.monotonic()
    while await num_inside(address) > number:
        assert time.monotonic() - begun_s < limit_s, "a request stays in the engine"
        await asyncio.sleep(0.005)
    return time.monotonic() - begun_s
