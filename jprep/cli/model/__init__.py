"""`jprep train`, `jprep export` and `jprep infer`."""
