"""Which samples can a hidden unit be active on? The sign patterns of a low-dimensional span.

BJW19, Lemma 1. The vectors of the span are `V z` for z in R^k, with V (n, k) a basis, one sample a
row (the paper's V' is our V^T). A *sign pattern* is the set of samples where such a vector is
positive. If a pattern S occurs at all, the polyhedron

    v_i.z >= 1 for i in S,    v_i.z <= 0 for i not in S

is not empty, and since V has rank k it has a vertex: k independent rows hold with equality, each
with right-hand side 0 or 1. So the patterns of all `2^k C(n, k)` such vertices are all the patterns
there are, zero faces included, where zero counts as "not positive". Samples with v_i = 0 are in no
pattern, and samples with the same direction are in the same patterns: only distinct directions are
enumerated. (Labels of networks have many such samples: all those with one active unit are parallel
to that unit's output weights.)

A unit's own values `relu(w.x)` are never negative, so its pattern passes a sharper test: a vector
of the span is positive on S and *zero* elsewhere. `supports` keeps the patterns whose complement
leaves such a vector room, a rank test.

All decisions are ratios: rows are normalised, a value counts as zero below `ZERO_RATIO` of the
largest it could have. Cost: a k x k system and k n products a vertex; memory is bounded by
a block of vertices, and one byte for eight samples for each distinct pattern.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice, product
from math import comb

import numpy as np

from provenet.common.typing import AnyArray, Array

ZERO_RATIO = 1e-9
"""Below this are rounding: ratios of singular values, and of a product to the norms of its factors.
"""


def span_basis(M: Array, tolerance: float = ZERO_RATIO) -> Array:
    """Orthonormal columns (n, rank) that span the columns of M; the rank is a ratio's decision."""
    U, s, _ = np.linalg.svd(M, full_matrices=False)
    return np.asarray(U[:, s > tolerance * s[0]] if s.size and s[0] > 0 else U[:, :0])


def distinct_directions(V: Array) -> tuple[Array, AnyArray]:
    """Unit vectors (q, k), each once, and which of them each row of V has (-1: the row is zero)."""
    norm = np.linalg.norm(V, axis=1)
    seen = norm > 1e-10 * norm.max(initial=0.0)
    member = np.full(len(V), -1)
    if not seen.any():
        return V[:0], member
    D = V[seen] / norm[seen, None]
    apart = np.linalg.norm(D[:, None, :] - D[None, :, :], axis=2)
    first, group = np.unique(np.argmax(apart <= ZERO_RATIO, axis=1), return_inverse=True)
    member[seen] = group
    return D[first], member


def vertex_count(directions: int, dimension: int) -> int:
    """How many vertices are visited: the origin is left out."""
    return int((2**dimension - 1) * comb(directions, dimension))


def most_patterns(directions: int, dimension: int) -> int:
    """A bound on the number of non-empty patterns.

    Scaled up, a vector has its positive values above 1 and the others below: each pattern is a cell
    of the arrangement of the hyperplanes `v_i.z = 1`, of which there are at most
    `sum_{i <= k} C(n, i)`.
    """
    return sum(comb(directions, i) for i in range(1, dimension + 1))


def vertices(D: Array, at_once: int = 2048) -> Iterator[tuple[int, Array]]:
    """Points (p, k) where k independent rows of D take values in {0, 1}, not all 0, in blocks.

    With each block: how many vertices have been visited.
    """
    q, k = D.shape
    values = np.array(list(product([0.0, 1.0], repeat=k)))[1:]
    choices, done = combinations(range(q), k), 0
    while block := list(islice(choices, at_once)):
        chosen = D[np.array(block)]
        regular = np.abs(np.linalg.det(chosen)) > ZERO_RATIO
        solved = np.linalg.solve(chosen[regular], np.broadcast_to(values.T, (k, len(values))))
        done += len(block) * len(values)
        yield done, np.moveaxis(solved, 1, 2).reshape(-1, k)


def pattern_blocks(D: Array) -> Iterator[tuple[int, AnyArray]]:
    """The patterns of all vertices, packed eight to a byte, each once in its block.

    With each block: how many vertices have been visited.
    """
    for done, Z in vertices(D):
        positive = ZERO_RATIO * np.linalg.norm(Z, axis=1, keepdims=True) < Z @ D.T
        yield done, np.unique(np.packbits(positive, axis=1), axis=0)


def unpack(packed: AnyArray, member: AnyArray) -> AnyArray:
    """Packed patterns of distinct directions as patterns (p, n) of the samples, each once.

    The empty pattern is left out; the others come by falling number of samples.
    """
    distinct = np.unique(packed, axis=0)
    directions = int(member.max(initial=-1)) + 1
    bits = np.unpackbits(distinct, axis=1, count=directions).astype(bool)
    patterns = np.where(member >= 0, bits[:, np.maximum(member, 0)], False)
    size = patterns.sum(axis=1)
    return patterns[np.argsort(-size, kind="stable")][: int(np.sum(size > 0))]


def sign_patterns(V: Array) -> AnyArray:
    """All non-empty sign patterns (p, n) of the vectors in the span of V's columns (Lemma 1)."""
    D, member = distinct_directions(V)
    if len(D) == 0:
        return np.zeros((0, len(V)), dtype=bool)
    return unpack(np.concatenate([block for _, block in pattern_blocks(D)]), member)


def supports(V: Array, patterns: AnyArray) -> AnyArray:
    """The patterns outside of which some vector of the span, not the zero vector, vanishes.

    A necessary condition for a unit to be active exactly there, decided by the ratio of the
    smallest singular value of V's rows outside the pattern to the norm of all of V.
    """
    if len(patterns) == 0:
        return patterns
    norm = np.linalg.norm(V, 2)
    blocks = np.array_split(patterns, -(-len(patterns) // 2048))
    smallest = [
        np.linalg.svd(np.where(block[:, :, None], 0.0, V), compute_uv=False)[:, -1]
        for block in blocks
    ]
    return patterns[np.concatenate(smallest) <= ZERO_RATIO * norm]
