"""One call to a model is one stream of events.

    types     the vocabulary             pairing   a history that a provider accepts
    fold      events -> message          retry     what a failure means, how long to wait
    scripted  a model from a list        registry  a URL -> a model
    replay    a stored branch again      cassette  a real run, recorded and played

An `adapter` is one question over HTTP in one wire format: pure on both sides of the exchange
(`http`, `sse`, `errors`), a `body` before it and an `answer` that reads events after it.
`usage` is what they cost, `advice` a failure in words; `keys` is the only place that holds a key.
A cassette is a `reel` of `exchange`s in a file (`tape`), found by their `question`.
"""
