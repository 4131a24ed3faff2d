"""An append-only tree on disk: everything that happened, nothing that is edited.

`session` opens one, `reader` answers, `appender` writes; `repo` knows where they live;
`context` projects a branch to what a model sees; `outline` shows the tree. A format is a
codec (`v4`). All formats fill the same `index`, so that everything above them knows only
one kind of session.

    bytes: jsonl, memory, lock -> codec -> index, tree -> reader, appender -> session -> repo
"""
