"""Recordings that come in: intake and limited decoding, safe fetching, the report on them."""
