"""Everything the studio keeps, opened together: who owns what, in one folder."""

from __future__ import annotations

from dataclasses import dataclass

from studio import consent, dictionary, history, voices
from studio.catalogue import Catalogue
from studio.dictionary import Words
from studio.owner import Identity, signing_key
from studio.session_voices import SessionVoices
from studio.settings import Settings
from studio.visits import open_history
from studio.voices import VoiceLibrary


@dataclass(frozen=True, eq=False)
class Stores:
    """The stores of one studio; close them after the engine."""

    catalogue: Catalogue
    identity: Identity
    voices: VoiceLibrary
    sessions: SessionVoices
    history: history.History
    words: Words

    def close(self) -> None:
        """Close the database."""
        self.history.close()
        self.catalogue.close()


def open_stores(settings: Settings) -> Stores:
    """Open the data folder of ``settings``; raises ``StorageFailed`` when it cannot be used."""
    folder = settings.data_folder
    catalogue = Catalogue(folder, consent.SCHEMA, dictionary.SCHEMA, history.SCHEMA, voices.SCHEMA)
    takes = open_history(settings, catalogue)
    return Stores(
        catalogue,
        Identity(signing_key(folder), settings.api_key, is_personal=settings.is_personal),
        VoiceLibrary(
            catalogue,
            settings.max_voices,
            keeps_sound=not settings.public,
            forget=takes.forget_voice,
        ),
        SessionVoices(),
        takes,
        Words(catalogue),
    )
