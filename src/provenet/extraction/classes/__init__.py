"""A network out of a model that answers with one of two classes: `boundary.BoundarySearch`.

All that such answers tell is the boundary between the classes, where the network f is zero. It is
made of pieces of hyperplanes, one a cell of inputs in which the same units are on, and it bends
where a unit switches.

1. `sides`: which class a point has; `bisection`: points of the boundary, many at once.
2. `pieces`: a piece's hyperplane, from points of it about one; `walks`: along a piece until it
   bends, and round the bend to the next piece.
3. `bends`: two pieces that meet where unit i switches have hyperplanes N and N', with
   `s' N' = s N +- V_i`: a plane that holds V_i = a_i (w_i, b_i). Where another bend is one of the
   same unit, the two planes share V_i.
4. `scales`: with the units known, f is a sum of them that vanishes on all pieces: linear equations.
"""
