"""A GPU that is not there: what its kernels, its autocast and its allocator would do, on fake tensors."""
