"""Learn new pieces on top of an existing tokenizer, whose ids stay as they are."""
