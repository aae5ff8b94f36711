"""From a reference recording to a speaker embedding."""
