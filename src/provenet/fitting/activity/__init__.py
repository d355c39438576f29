"""Which units are on at which samples, read off the samples themselves."""
