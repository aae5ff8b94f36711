"""One repository of the hub as a folder of the hub's own cache, whole and checked, or not at all.

- A weight file is linked into the folder only after its SHA-256 was found to be the hub's: nothing
  half-written or foreign is ever opened. The weights come last, so a folder with weights is whole.
- What has arrived of a broken download stays, and the next try goes on from there
  (huggingface_hub itself resumes within one call only).
- A repository that is in the cache is used without asking the network.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import CheckpointError, StudioError
from engine.memory import in_units

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

log = logging.getLogger(__name__)

Progress = Callable[[str], None]
Check = Callable[[Path], None]

# How long the hub may take to answer. While bytes flow, huggingface_hub has its own limit (10 s).
ANSWER_S = 10.0
TOLD_EVERY_S = 5.0
KEPT = "what has arrived is kept and the next try goes on from there"


@dataclass(frozen=True)
class Wanted:
    """What of a repository is opened: nothing else travels, least of all code.

    ``first`` is read before anything large is fetched, the first of ``weights`` that exists is
    fetched last, and ``others`` are patterns of file names.
    """

    first: str
    weights: tuple[str, ...]
    others: tuple[str, ...] = ()

    def names(self, listed: Iterable[str]) -> list[str]:
        """The files to fetch, in order; empty when the repository lacks ``first`` or weights."""
        there = sorted(listed)
        weights = next((name for name in self.weights if name in there), None)
        if self.first not in there or weights is None:
            return []
        others = (
            name
            for name in there
            if name not in (self.first, *self.weights)
            and any(fnmatch(name, pattern) for pattern in self.others)
        )
        return [self.first, *others, weights]


def fetch(
    repository: str,
    revision: str | None,
    wanted: Wanted,
    *,
    is_offline: bool = False,
    endpoint: str | None = None,
    progress: Progress = log.info,
    check: Check | None = None,
) -> Path:
    """The folder of ``repository`` at ``revision`` (None: main), fetched if it is not cached.

    ``check`` sees the folder when ``wanted.first`` lies in it and may refuse by raising, before
    anything large travels; ``progress`` is told plain lines. ``endpoint`` None and everything else
    about the hub (cache, token, mirror) is huggingface_hub's own configuration.
    Raises ``CheckpointError`` with one sentence on every failure.
    """
    constants = _hub_constants(repository)
    folder = cached(repository, revision, wanted)
    if folder is not None:
        if check is not None:
            check(folder)
        return folder
    if is_offline or constants.is_offline_mode():
        at = f" --revision {revision}" if revision else ""
        raise CheckpointError(
            f"model: {repository} is not in the cache ({constants.HF_HUB_CACHE}) and the studio is"
            f" offline; fetch it once with `hf download {repository}{at}` while online, or give a"
            " folder that holds it."
        )
    with _told(repository, revision):
        return _Transfer(repository, revision, endpoint, progress).run(wanted, check)


def cached(repository: str, revision: str | None, wanted: Wanted) -> Path | None:
    """The folder of ``repository`` if it is in the hub's cache; asks no network."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None

    for weights in wanted.weights:
        found = try_to_load_from_cache(repository, weights, revision=revision)
        if isinstance(found, str):
            folder = Path(found).parents[weights.count("/")]
            return folder if (folder / wanted.first).is_file() else None
    return None


class _Transfer:
    """Fetches one repository at one commit."""

    def __init__(
        self, repository: str, revision: str | None, endpoint: str | None, progress: Progress
    ) -> None:
        from huggingface_hub import HfApi

        self._repository = repository
        self._revision = revision
        self._progress = progress
        self._api = HfApi(endpoint=endpoint, library_name="zonos2-studio")
        info = self._api.model_info(
            repository, revision=revision, files_metadata=True, timeout=ANSWER_S
        )
        self._commit = info.sha
        self._files = {file.rfilename: file for file in info.siblings or ()}

    def run(self, wanted: Wanted, check: Check | None) -> Path:
        names = wanted.names(self._files)
        if not names:
            raise CheckpointError(
                f"model: the repository {self._repository} is none that can be opened: it must hold"
                f" {wanted.first} and one of {', '.join(wanted.weights)}."
            )
        # Asking by the name of the branch makes the cache remember where it stood.
        folder = self._link(wanted.first, self._revision or "main").parent
        if check is not None:
            check(folder)
        self._check_disk(folder, names)
        for name in names[1:]:
            if self._files[name].lfs is not None:
                self._receive(self._files[name])
            self._link(name, self._commit)
        return folder

    def _link(self, name: str, revision: str | None) -> Path:
        """The file in the commit's folder of the cache; downloaded unless its blob is there."""
        from huggingface_hub import hf_hub_download
        from huggingface_hub.utils.tqdm import silent_tqdm

        quiet: Any = silent_tqdm
        return Path(
            hf_hub_download(
                self._repository,
                name,
                revision=revision,
                endpoint=self._api.endpoint,
                etag_timeout=ANSWER_S,
                tqdm_class=quiet,
            )
        )

    def _receive(self, file: RepoSibling) -> None:
        """Bring a large file to its place among the cache's blobs, whose names are SHA-256."""
        from huggingface_hub import hf_hub_url
        from huggingface_hub.file_download import http_get
        from huggingface_hub.utils import WeakFileLock, build_hf_headers

        assert file.lfs is not None
        blob, size, name = self._blob(file), file.lfs.size, file.rfilename
        part = _part(blob)
        # huggingface_hub's own lock of this blob: another process may be fetching it.
        lock = blob.parents[2] / ".locks" / blob.parents[1].name / f"{blob.name}.lock"
        for parent in (blob.parent, lock.parent):
            parent.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(lock):
            if blob.exists():
                return
            if _size(part) > size:
                part.unlink()
            with part.open("ab") as opened:
                meter = _Meter(name, size, opened.tell(), self._progress)
                as_bar: Any = meter.as_bar
                http_get(
                    hf_hub_url(
                        self._repository, name, revision=self._commit, endpoint=self._api.endpoint
                    ),
                    opened,
                    resume_size=opened.tell(),
                    headers=build_hf_headers(library_name="zonos2-studio"),
                    expected_size=size,
                    tqdm_class=as_bar,
                )
            self._progress(f"{name}: all of it has arrived; its checksum is being computed")
            with part.open("rb") as opened:
                actual = hashlib.file_digest(opened, "sha256").hexdigest()
            if actual != file.lfs.sha256:
                part.unlink()
                raise CheckpointError(
                    f"model: {name} of {self._repository} is damaged: its sha256 is {actual} and"
                    f" the hub promises {file.lfs.sha256}; it was thrown away, try again."
                )
            part.replace(blob)
        self._progress(f"{name}: sha256 {actual}, as the hub promises")

    def _blob(self, file: RepoSibling) -> Path:
        from huggingface_hub.constants import HF_HUB_CACHE
        from huggingface_hub.file_download import repo_folder_name

        assert file.lfs is not None
        folder = repo_folder_name(repo_id=self._repository, repo_type="model")
        return Path(HF_HUB_CACHE) / folder / "blobs" / file.lfs.sha256

    def _check_disk(self, folder: Path, names: Iterable[str]) -> None:
        """Say what will travel; raises ``CheckpointError`` when the disk cannot hold it."""
        missing_bytes = 0
        for file in (self._files[name] for name in names):
            if file.lfs is not None and not (blob := self._blob(file)).exists():
                missing_bytes += file.lfs.size - _size(_part(blob))
        pinned = "" if self._revision else ", the newest of its branch main (not pinned)"
        self._progress(
            f"{self._repository} at {str(self._commit)[:12]}{pinned}: {in_units(missing_bytes)} to"
            " fetch"
        )
        free_bytes = shutil.disk_usage(folder).free
        if missing_bytes > free_bytes:
            raise CheckpointError(
                f"model: {self._repository} needs {in_units(missing_bytes)} more on the disk of the"
                f" cache and {in_units(free_bytes)} are free; make room there, or move the cache"
                " with the environment variable HF_HOME."
            )


def _part(blob: Path) -> Path:
    """Where a blob grows until it is whole."""
    return blob.with_name(f"{blob.name}.part")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


class _Meter:
    """Tells how far a file has come; huggingface_hub feeds it like a progress bar of tqdm."""

    def __init__(self, name: str, size_bytes: int, start_bytes: int, progress: Progress) -> None:
        self._name = name
        self._size = size_bytes
        self._start = self._arrived = start_bytes
        self._progress = progress
        self._started_s = self._told_s = time.monotonic()
        if start_bytes:
            progress(f"{name}: goes on at {in_units(start_bytes)} of {in_units(size_bytes)}")

    def as_bar(self, **_: object) -> _Meter:
        """What huggingface_hub calls to make its bar."""
        return self

    def __enter__(self) -> _Meter:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def update(self, num_bytes: int) -> None:
        """Take note of ``num_bytes`` more."""
        self._arrived += num_bytes
        now_s = time.monotonic()
        if now_s - self._told_s < TOLD_EVERY_S and self._arrived < self._size:
            return
        self._told_s = now_s
        rate = max(1.0, (self._arrived - self._start) / max(1e-3, now_s - self._started_s))
        left_s = (self._size - self._arrived) / rate
        self._progress(
            f"{self._name}: {in_units(self._arrived)} of {in_units(self._size)}"
            f" ({self._arrived / self._size:.0%}), {in_units(round(rate))}/s, {left_s:.0f} s left"
        )


def _hub_constants(repository: str) -> Any:
    try:
        from huggingface_hub import constants
    except ImportError:
        raise CheckpointError(
            f"model: {repository} must be downloaded and huggingface_hub is not installed; install"
            " requirements.txt, or give a checkpoint folder."
        ) from None
    return constants


@contextmanager
def _told(repository: str, revision: str | None) -> Iterator[None]:
    """Every failure of the hub, the network or the disk as one ``CheckpointError``."""
    import httpx2
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except StudioError:
        raise
    except GatedRepoError:
        told = "asks you to accept its terms; do so on its page, then log in with `hf auth login`"
    except RepositoryNotFoundError:
        told = "is not on the hub, or private; check the name, or log in with `hf auth login`"
    except RevisionNotFoundError:
        told = f"has no revision {revision!r}; check it, or leave it out"
    except EntryNotFoundError as error:
        told = f"could not be fetched ({_first_cause(error)}); check the network; {KEPT}"
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            told = f"is refused by the hub ({status}); log in with `hf auth login`"
        else:
            told = f"could not be fetched: the hub answered {status}; try again later; {KEPT}"
    except httpx2.TimeoutException:
        told = f"could not be fetched: the hub does not answer; check the network; {KEPT}"
    except (httpx2.HTTPError, OSError) as error:
        told = f"could not be fetched ({_first_cause(error)}); check the network; {KEPT}"
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            told = f"could not be fetched: the disk of the cache is full; make room there; {KEPT}"
    except ValueError as error:
        told = f"could not be fetched: the answer is none of a hub ({type(error).__name__})"
    else:
        return
    raise CheckpointError(f"model: {repository} {told}.")


def _first_cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return type(error).__name__
