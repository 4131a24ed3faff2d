"""`python -m pi_nb`: the same as `pi-nb`."""

from __future__ import annotations

import sys

from pi_nb.cli import main

sys.exit(main())
