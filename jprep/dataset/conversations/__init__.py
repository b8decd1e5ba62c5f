"""Conversations for instruction tuning (`sft`)."""
