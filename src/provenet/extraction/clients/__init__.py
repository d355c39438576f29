"""Who is asked: a function, a file or an address, each behind the same few methods."""
