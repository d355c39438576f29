"""What every package uses: exceptions, types, progress, text and checks of arguments, files.

Imports nothing of the package.
"""

__version__ = "0.1.0"
