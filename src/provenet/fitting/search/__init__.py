"""Search for networks of unknown widths by local moves: no theorem, but any inputs, few samples.

`problem` says what is searched, `moves` how a network changes, `driver` in what order moves are
tried, and `alternatives` whether a network a unit or two away explains noisy samples better.
"""
