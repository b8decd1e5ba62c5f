"""Japanese tasks given as files: items, their prompts, and the judgement of likelihoods."""
