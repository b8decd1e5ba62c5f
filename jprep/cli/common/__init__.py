"""What all commands share: output, progress, options, interruption."""
