"""Readers and writers of sample files, one module a format; `door` is their door."""
