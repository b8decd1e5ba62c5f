"""Stages of `jprep dataset pack`: encode each corpus shard, then merge the shards into splits."""
