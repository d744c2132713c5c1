"""Token ids in, Steps out: the one loop that every method of speculative decoding runs through."""
