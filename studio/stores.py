"""Everything the studio keeps, opened together: who owns what, in one folder."""

from __future__ import annotations

from dataclasses import dataclass

from studio.catalogue import Catalogue
from studio.owner import Identity, signing_key
from studio.settings import Settings


@dataclass(frozen=True, eq=False)
class Stores:
    """The stores of one studio; close them after the engine."""

    catalogue: Catalogue
    identity: Identity

    def close(self) -> None:
        """Close the database."""
        self.catalogue.close()


def open_stores(settings: Settings) -> Stores:
    """Open the data folder of ``settings``; raises ``StorageFailed`` when it cannot be used."""
    folder = settings.data_folder
    return Stores(
        Catalogue(folder),
        Identity(signing_key(folder), settings.api_key, is_personal=settings.is_personal),
    )
