"""`"halfspaces"`: a union of halfspaces from 0/1 labels, or an intersection (GP19, section 2.3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.networks import row_blocks
from provenet.parallel import sum_over
from provenet.sources import Source
from provenet.unions import (
    Blur,
    Faces,
    candidate_face,
    fit_faces,
    soft_errors,
    version_space,
)

_ROWS_AT_ONCE = 4096
_PROBED_BLOCKS = 8
_MOST_POSITIVES = 200_000
_MOST_ROWS = 60_000
_MOST_SEARCHED = 20_000
_FIRST_SHARPNESS, _SEARCH_SHARPNESS = 4.0, 16.0
_NEAR = 8.0
_BLURRED = 3.0
_DOUBT = 0.01
_LEAST_FLIPS = 1e-3
_MOST_FACES = 64
_ROUNDS = 3


@dataclass(frozen=True)
class Samples:
    source: Source
    above: float | None = None
    complement: bool = False

    @property
    def size(self): return self.source.size
    @property
    def features(self): return self.source.features

    def rows(self, block):
        X, y = self.source.rows(block.start, block.stop)
        fired = y > (0.5 if self.above is None else self.above)
        return X, fired != self.complement

    def over(self, term, stride=1):
        blocks = list(row_blocks(self.size, _ROWS_AT_ONCE))[::stride]
        return sum_over(blocks, lambda block: term(*self.rows(block)))

    def gather(self, choose, limit):
        blocks = -(-self.size // _ROWS_AT_ONCE)
        probe = max(1, blocks // _PROBED_BLOCKS)
        counts = self.over(lambda X, y: np.array([choose(X, y).sum(), len(y)]), probe)
        expected = self.size * counts[0] / counts[1]
        stride = min(probe, max(1, int(np.ceil(expected / limit))))
        def term(X, y):
            chosen = choose(X, y)
            return [(X[chosen], y[chosen])]
        parts = self.over(term, stride)
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), stride


def fewest_positives(d, n, background):
    return (d + 1) * np.log(n) / np.log(1 / min(max(background, 1 / n), 0.9))


def significant(fired, silent, background, d, n):
    purity = fired / max(fired + silent, 1)
    if purity <= max(0.5, background): return False
    bg = max(background, 1 / n)
    gain = fired * np.log(purity / bg)
    if silent: gain += silent * np.log((1 - purity) / (1 - bg))
    return gain > (d + 1) * np.log(n)


def find_face(samples, faces, sharp, U, stride, rng, upto, log=None):
    n, d = samples.size, samples.features
    new = candidate_face(U, n / stride, rng)
    background = len(U) * stride / n
    beta = _FIRST_SHARPNESS
    while True:
        reach = _NEAR / beta
        def choose(X, y):
            m = new.margins(X)[:, 0] > -reach
            m[m] &= ~(y[m] & (faces.deepest(X[m], sharp) > -_BLURRED))
            return m
        X, y, s = samples.gather(choose, _MOST_SEARCHED)
        new = fit_faces(X, y, new, Blur(np.array([beta]), max(_DOUBT, background), _DOUBT))
        if beta >= upto: break
        beta = min(2 * beta, upto)
    beyond = new.margins(X)[:, 0] > 0
    a, b = s * int((beyond & y).sum()), s * int((beyond & ~y).sum())
    if log: log('   new', len(faces), len(U), new.thresholds, a, b)
    return new if significant(a, b, background, d, n) else None


def search(samples, P, stride, rng, most, log=None):
    n, d = samples.size, samples.features
    faces = Faces.none(d)
    while len(faces) < most:
        sharp = np.full(len(faces), _SEARCH_SHARPNESS)
        U = P[faces.deepest(P, sharp) < -_BLURRED]
        if len(U) * stride < fewest_positives(d, n, len(U) * stride / n): break
        new = find_face(samples, faces, sharp, U, stride, rng, _SEARCH_SHARPNESS, log)
        if new is None: break
        faces = faces + new
    return faces


def near_faces(samples, faces, sharp):
    def choose(X, y):
        return np.abs(faces.deepest(X, sharp)) < _NEAR
    return samples.gather(choose, _MOST_ROWS)

def flips(samples, faces, sharp, stride):
    def term(X, y):
        deep = faces.deepest(X, sharp)
        i, o = deep > _NEAR, deep < -_NEAR
        return np.array([(o & y).sum(), o.sum(), (i & ~y).sum(), i.sum()])
    return samples.over(term, stride)

def pruned(P, stride, faces, sharp, fewest):
    keep = np.ones(len(faces), bool)
    M = faces.margins(P) * sharp
    while keep.sum() > 1:
        idx = np.flatnonzero(keep)
        part = M[:, idx]
        two = np.partition(part, -2, axis=1)
        top = part.argmax(1)
        sole = (two[:, -1] > 0) & (two[:, -2] < -_BLURRED)
        support = stride * np.bincount(top[sole], minlength=len(idx))
        j = int(np.argmin(support))
        if support[j] >= fewest: break
        keep[idx[j]] = False
    return keep

def densities(X, stride, faces, sharp):
    M = faces.margins(X) * sharp
    top = M.argmax(1)
    return stride * np.bincount(top, minlength=len(faces)) * sharp / (2 * _NEAR)

def sharpen(samples, faces, P, pstride, rng, log=None):
    n, d = samples.size, samples.features
    level = _SEARCH_SHARPNESS
    cap = np.full(len(faces), np.inf)
    while True:
        for r in range(_ROUNDS):
            sharp = np.minimum(level, cap)
            X, y, stride = near_faces(samples, faces, sharp)
            c = flips(samples, faces, sharp, stride)
            e0, e1 = max(c[0] / max(c[1], 1), _LEAST_FLIPS), max(c[2] / max(c[3], 1), _LEAST_FLIPS)
            blur = Blur(sharp, e0, e1)
            faces = fit_faces(X, y, faces, blur)
            few = fewest_positives(d, n, c[0] / max(c[1], 1))
            keep = pruned(P, pstride, faces, sharp, few)
            if log: log('  level', level, len(X), stride, 'faces', len(faces), keep.sum(), 'flips', c)
            if not keep.all():
                faces, cap = faces.keep(keep), cap[keep]
                continue
            U = P[faces.deepest(P, sharp) < -_BLURRED - 1]
            if len(U) * pstride < few: break
            new = find_face(samples, faces, sharp, U, pstride, rng, level, log)
            if new is None: break
            faces, cap = faces + new, np.append(cap, np.inf)
        rho = densities(X, stride, faces, sharp[:len(faces)] if len(sharp)>=len(faces) else np.minimum(level,cap))
        cap = np.maximum(rho * (1 - e0 - e1)**2 / d, _SEARCH_SHARPNESS) if max(e0, e1) <= _LEAST_FLIPS else np.maximum(rho * (1 - e0 - e1)**2 / (C_NOISE * d), _SEARCH_SHARPNESS)
        if (cap <= level).all(): break
        level *= 4
    return faces, blur, (X, y)
C_NOISE = 4.0

def finish(X, y, faces, blur, rng):
    ang, thr = soft_errors(X, y, faces, blur)
    exact = np.zeros(len(faces), bool)
    M = faces.margins(X) * blur.sharpness
    W, t = faces.weights.copy(), faces.thresholds.copy()
    for i in range(len(faces)):
        others = np.delete(M, i, axis=1).max(axis=1, initial=-np.inf)
        rows = (np.abs(M[:, i]) < _NEAR) & (~y | (others < -_NEAR))
        cell = version_space(X[rows], y[rows], faces.keep(np.arange(len(faces)) == i), _NEAR / blur.sharpness[i], rng)
        if cell is None: continue
        W[i], t[i] = cell.face.weights[0], cell.face.thresholds[0]
        ang[i], thr[i], exact[i] = cell.angle_error, cell.threshold_error, True
    return Faces(W, t), ang, thr, exact
