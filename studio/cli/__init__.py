"""Commands of app.py that have a file of their own, and how each of them reads its options."""

from __future__ import annotations

import argparse
import os

from studio import logs
from studio.settings import Settings, read_settings


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings of a command, and from here on a log on stderr as loud as they say."""
    settings = read_settings(options, os.environ)
    logs.begin(settings.log_level, settings.log_format)
    return settings
