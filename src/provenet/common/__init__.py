"""What every room uses: exceptions, types, words of messages, files written whole, blocks of rows;
how loops end, and the loop of damped steps.

Imports nothing of the package.
"""
