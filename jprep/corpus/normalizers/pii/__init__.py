"""Mask personal data in Japanese text: numbers, mail and network addresses, postal addresses, licence plates."""
