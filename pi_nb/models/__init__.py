"""One call to a model is one stream of events.

    types     the vocabulary             pairing   a history that a provider accepts
    fold      events -> message          retry     what a failure means, how long to wait
    scripted  a model from a list        registry  a URL -> a model
    replay    a stored branch again      cassette  a real run, recorded and played

Adapters (`openai_completions`, `completions_events`, `call_deltas`) are pure on both sides
of one HTTP exchange (`http`, `sse`, `errors`); `keys` is the only place that holds a key.
A cassette is a `reel` of `exchange`s in a file (`tape`), found by their `question`.
"""
