"""One call to a model is one stream of events.

`types` holds the vocabulary, `fold` builds the message from the events, `pairing` makes a
history that a provider accepts. Adapters (`openai_completions`) are pure on both sides of
one HTTP exchange (`http`, `sse`); `scripted` plays a model from a list or a function.
"""
