"""Networks behind black boxes: how they are queried, what to query, and what the answers show."""
