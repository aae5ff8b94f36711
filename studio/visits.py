"""Takes of a public studio: for the visit only, in a folder that goes with the process.

Another database than that of the voices: when the studio stops, nothing of a visit is left in any
file, and after a kill the next start clears it up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from studio.catalogue import Catalogue
from studio.history import SCHEMA, History
from studio.leftovers import ShortLivedFolder
from studio.take_file import storage_failed

if TYPE_CHECKING:
    from studio.settings import Settings  # it loads the engine

VISIT_S = 2 * 3600.0
VISITS, TAKES = "visits", "takes"  # below the data folder
_LONGER_THAN_A_VISIT_DAYS = 1.0


class VisitHistory(History):
    """A history whose takes go ``VISIT_S`` after their owner was last here, or at ``close``."""

    def __init__(
        self,
        parent: Path,
        max_takes: int,
        max_mb: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        try:
            self._home = ShortLivedFolder(parent)
        except OSError as error:
            raise storage_failed(error) from None
        self._visits = Catalogue(self._home.path, SCHEMA)
        super().__init__(
            self._visits,
            self._home.path / TAKES,
            max_takes,
            _LONGER_THAN_A_VISIT_DAYS,
            max_mb,
            visit_s=VISIT_S,
            clock=clock,
        )

    def close(self) -> None:
        self._visits.close()
        self._home.close()


def open_history(settings: Settings, catalogue: Catalogue) -> History:
    """The takes of the studio of ``settings``; raises ``StorageFailed``."""
    folder = settings.data_folder
    if settings.public and settings.max_takes:
        return VisitHistory(folder / VISITS, settings.max_takes, settings.takes_mb)
    return History(
        catalogue, folder / TAKES, settings.max_takes, settings.takes_days, settings.takes_mb
    )
