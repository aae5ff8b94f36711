"""From codes to sound: the delay pattern, the codecs and exact streaming."""
