"""Encodings of other programs: protocol buffers and CRC-32C."""
