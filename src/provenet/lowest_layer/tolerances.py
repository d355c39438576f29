"""Numbers of this room, each with a word: derived, a convention, or measured."""

from __future__ import annotations

AT_THE_ROUNDING = 10.0
"""Times the rounding error of labels in single precision: a fit leaves that or it is none. A
convention, as networks are asked for."""
AT_THE_NOISE = 1.2
"""Times the noise given: a fit leaves that or it is none. A convention; the judge asks for more."""
MOSTLY_SILENT = 0.5
"""Share of samples that have the silent label. Derived: less is not seen in the median."""
