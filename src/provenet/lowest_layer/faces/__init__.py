"""Units by the faces across which the mean of the labels jumps or bends."""
