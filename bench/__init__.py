"""Measurements: definitions in README.md, scripts here, recorded results in results/."""
