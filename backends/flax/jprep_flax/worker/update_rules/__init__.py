"""Update rules of weights."""
