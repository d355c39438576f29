"""Readers and writers of sample files, one module a format; `provenet.io` is their door."""
