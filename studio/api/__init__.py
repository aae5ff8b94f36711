"""The HTTP routes: other people's field names come in here and become engine terms at once."""
