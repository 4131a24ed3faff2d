"""An append-only tree on disk: everything that happened, nothing that is edited.

`session` opens, reads and writes one; `repo` knows where they live; `context` projects a
branch to what a model sees; `outline` shows the tree. A format is a codec (`v4`); all
formats fill the same `index`, so everything above them knows only one kind of session.

    bytes: jsonl, memory, lock -> codec -> index, tree -> reader -> session -> repo, outline
"""
