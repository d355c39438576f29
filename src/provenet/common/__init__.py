"""What every room uses: exceptions, types, words of messages, files written whole, blocks of rows.

Imports nothing of the package.
"""
