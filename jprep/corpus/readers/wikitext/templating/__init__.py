"""What templates show, by tables in TOML."""
