"""Unions of halfspaces, and intersections, from 0/1 labels (GP19, section 2.3: P is OR, u a step).

A union fires where `w_i.x > t_i` for some i. The paper takes approximate directions from Hermite
moments (step 1, section 2.1), valid when thresholds are high, and refines each by the share of
positives in thin bands (step 2). From samples a shorter way is as good as the samples allow, at
thresholds of any height and for more halfspaces than features:

1. `search`: a candidate from the positives that no halfspace claims yet (`candidates`), fitted by
   itself to all samples near it; again, until what is left is no more than chance.
2. `sharpen`: all faces at once (`noisy_or`), the blur falling by stages, each on the samples that
   it can see; faces are dropped, split and added on the way.
3. `finish`: the version space of every face (`version_space`), its mean and its spread. With many
   flipped labels the soft fit stands, with its standard errors.

`findings` says what speaks for it and against, `learn` is the recipe. Nothing but the first guess
of a candidate's threshold assumes Gaussian inputs.

Cost: several passes over the samples a halfspace and a stage, the early ones over a part of them.
Memory: the positives (some 200,000 at most) and the samples near the faces (some 60,000).
"""

from provenet.lowest_layer.unions.halfspace_set import HalfspaceSet
from provenet.lowest_layer.unions.learn import learn_union

__all__ = ["HalfspaceSet", "learn_union"]
