"""What a backend's worker uses: session, batches, metrics, rank synchronization, command line."""
