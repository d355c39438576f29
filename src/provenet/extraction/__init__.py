"""Networks out of black boxes that may be asked: who is asked, what to ask, what it means."""
