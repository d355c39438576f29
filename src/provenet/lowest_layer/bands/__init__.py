"""Units by what labels do in thin bands across a direction, where inputs may be chosen."""
