"""Commands of app.py that have a file of their own, and how each of them reads its options."""

from __future__ import annotations

import argparse
import logging
import os

from studio.settings import Settings, read_settings


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings of a command, and from here on a log on stderr as loud as they say."""
    settings = read_settings(options, os.environ)
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(levelname)s %(name)s: %(message)s"
    )
    return settings
