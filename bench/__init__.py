"""Measurements: definitions in README.md, scripts here, recorded results in results/."""

import os

# As app.py does, before torch is loaded: its threads would spin on after their work, and be in the
# way of the decode step's own.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
