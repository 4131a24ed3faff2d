"""A prompt becomes turns until nothing is left to do.

`types` says what a tool is, `schema` makes one from a typed function and checks arguments,
`calls` runs the calls of one message, `run` is the loop, `events` is what it tells.
It knows nothing of sessions: whoever owns the loop decides what is written, and when.
"""
