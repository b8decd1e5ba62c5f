"""Filter sets that others published, as data files `NAME.toml`: rules over signals, with their source."""
