"""Deep ReLU networks from exact answers, a layer at a time."""
