"""What tests need of jprep: named failpoints, and the conformance suites that every plugin's own tests call."""
