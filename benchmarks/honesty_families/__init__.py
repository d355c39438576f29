"""Families of problems that attack the promise that a success is right, by what is unusual."""

from honesty_families import deep, deep_models, inputs, labels, methods, models, noise, smooth
from honesty_families.case import Family

FAMILIES: dict[str, Family] = {
    family.name: family
    for room in (noise, labels, inputs, methods, models, smooth, deep, deep_models)
    for family in room.FAMILIES
}
"""All of them by name, in the order of the table."""
