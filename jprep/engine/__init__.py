"""Run stages of tasks, resume them, and record what each output was made from."""
